package main

import (
	"context"
	"errors"

	"baton/resume"
	"baton/resume/state"
)

// exitError is an error with a status of its own.
type exitError struct {
	err    error
	status int
	silent bool // is not printed
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// exitOf is the status for each kind of failure: curl's, where curl has one.
var exitOf = map[resume.Kind]int{
	resume.Resolve: 6, resume.Connect: 7, resume.Status: 22, resume.Busy: 22, resume.Output: 23, resume.Stalled: 28, resume.Changed: 33,
	resume.Unusable: 33, resume.Secure: 35, resume.Redirects: 47, resume.Receive: 56, resume.Certificate: 60, resume.Digest: 101,
	resume.Canceled: 130,
}

// getFailure gives an error its status.
func getFailure(err error, o *getOptions) error {
	if err == nil {
		return nil
	}
	status := exitFailure
	var fault *resume.Error
	switch {
	case errors.Is(err, state.ErrLocked):
		status = 102
	case errors.Is(err, state.ErrAdopted):
		status = 33
	case errors.Is(err, context.DeadlineExceeded):
		status = 28
	case errors.As(err, &fault):
		status = exitOf[fault.Kind]
	default:
		status = 23 // of the file
	}
	return exitError{err, status, o.silent && !o.showError}
}
