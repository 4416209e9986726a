"""What drivers that compute on the host's processor share."""
