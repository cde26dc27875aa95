"""The system below: its tools, the threads of this process, and the place tfwatch was installed from."""
