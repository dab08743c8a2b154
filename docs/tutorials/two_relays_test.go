package tutorials_test

import "testing"

func TestTwoRelays(t *testing.T) { follow(t, "two-relays.md", laptop(t)) }
