package lab

import (
	"fmt"
	"time"
)

// Poll calls f until it returns nil, at intervals that grow from 1 to 50 ms, and returns f's last error when the
// timeout has passed.
func Poll(timeout time.Duration, f func() error) error {
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; ; pause = min(pause*2, 50*time.Millisecond) {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", timeout, err)
		}
		time.Sleep(pause)
	}
}

// Eventually fails the test with f's last error unless f returns nil before the timeout.
func Eventually(t T, timeout time.Duration, f func() error) {
	t.Helper()
	if err := Poll(timeout, f); err != nil {
		t.Fatalf("%v", err)
	}
}
