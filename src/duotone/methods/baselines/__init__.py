"""Methods with no room of their own: the baselines everything is judged against, one file each."""
