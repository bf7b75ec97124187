"""The clients that people really use, between the program and scripted answers of the API.

What a client gave to its caller must be what the upstream said, and the entries must say the same.
"""
