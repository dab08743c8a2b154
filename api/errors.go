package api

import (
	"errors"
	"fmt"
	"net/http"
)

// Errors that a Backend may wrap; the Client's error then is the same.
var (
	ErrNotFound = errors.New("not found")       // 404
	ErrInvalid  = errors.New("invalid request") // 400
	ErrConflict = errors.New("conflict")        // 409: for example, a configuration that cannot be loaded
)

var statuses = []struct {
	err    error
	status int
}{
	{ErrNotFound, http.StatusNotFound}, {ErrInvalid, http.StatusBadRequest}, {ErrConflict, http.StatusConflict},
}

func statusOf(err error) int {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// Error is a daemon's error. errors.Is finds ErrNotFound, ErrInvalid and ErrConflict in it.
type Error struct {
	Status  int // HTTP
	Message string
}

func (e *Error) Error() string { return e.Message }

// Is matches the sentinel of the same status.
func (e *Error) Is(target error) bool {
	for _, s := range statuses {
		if s.err == target {
			return s.status == e.Status
		}
	}
	return false
}

// NotRunningError says that nobody listens on the control socket.
type NotRunningError struct{ Path string }

func (e *NotRunningError) Error() string {
	return fmt.Sprintf("nobody listens on %s: is it running?", e.Path)
}

// Refused marks the error of a reload that left the old configuration in force: ErrConflict with err's text.
func Refused(err error) error { return refused{err} }

type refused struct{ error }

func (r refused) Unwrap() []error { return []error{r.error, ErrConflict} }
