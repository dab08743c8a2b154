package main

import (
	"context"
	"errors"

	"baton/cmd/cli"
	"baton/resume"
	"baton/resume/state"
)

// exitOf maps each kind of failure to an exit status: curl's, if curl has one.
var exitOf = map[resume.Kind]int{
	resume.Resolve: 6, resume.Connect: 7, resume.Status: 22, resume.Busy: 22, resume.Output: 23, resume.Stalled: 28, resume.Changed: 33,
	resume.Unusable: 33, resume.Secure: 35, resume.Redirects: 47, resume.Receive: 56, resume.Certificate: 60, resume.Digest: 101,
	resume.Canceled: 130,
}

// getFailure adds the status to an error.
func getFailure(err error, o *getOptions) error {
	if err == nil {
		return nil
	}
	status := cli.Failure
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
	return cli.ExitError{Err: err, Status: status, Silent: o.silent && !o.showError}
}
