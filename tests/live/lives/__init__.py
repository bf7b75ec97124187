"""The lives of one service, which its tests end and begin again."""
