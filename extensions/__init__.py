"""The optional parts of the program: each folder is one of them, with its tests. No room imports one."""
