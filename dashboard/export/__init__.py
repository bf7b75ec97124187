"""Downloads of filtered lists as JSON Lines and Parquet, and of a session as an HTML file."""
