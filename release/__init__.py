"""What a release is made with: `make wheels` and `make release-check`."""
