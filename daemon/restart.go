package daemon

import (
	"fmt"
	"strings"
)

// AfterRestart says of a key what a reload cannot do.
const AfterRestart = "takes effect only after a restart"

// RestartError returns the error of a reload whose file changes keys that a running process cannot; nil without keys.
func RestartError(file string, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s: %s", file, strings.Join(keys, ", "), AfterRestart)
}
