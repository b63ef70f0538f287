"""Did the load come, and was the machine strained?"""
