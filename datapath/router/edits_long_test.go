package router

import "testing"

// TestNoSpoofAmongMany is TestNoSpoof with a hundred thousand heads.
func TestNoSpoofAmongMany(t *testing.T) { spoofs(t, 100_000) }
