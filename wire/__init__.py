"""The Messages API: requests and responses, read once into values for everybody else."""
