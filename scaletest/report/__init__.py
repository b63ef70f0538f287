"""What people look at: progress lines and the final verdict."""
