"""Processes that live with their parent: started by exec or fork, watched, and stopped gently first."""
