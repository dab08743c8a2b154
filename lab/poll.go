package lab

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// patienceVariable multiplies the timeouts of Poll, for machines that are slower by such a factor: guests without KVM.
const patienceVariable = "BATON_LAB_PATIENCE"

var patience = sync.OnceValue(func() time.Duration {
	n, err := strconv.Atoi(os.Getenv(patienceVariable))
	if err != nil || n < 1 {
		return 1
	}
	return time.Duration(n)
})

// Poll calls f until it returns nil, at intervals that grow from 1 to 50 ms, and returns f's last error when the
// timeout has passed.
func Poll(timeout time.Duration, f func() error) error {
	timeout *= patience()
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
