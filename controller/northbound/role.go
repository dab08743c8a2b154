package northbound

import (
	"fmt"

	"baton/document"
)

// Role is what a caller may do. Each role includes those before it.
type Role uint8

// The roles.
const (
	Nobody   Role = iota
	Viewer        // reads
	Router        // a request router: takes part in handoffs
	Operator      // changes surrogates
)

var roles = [...]string{"nobody", "viewer", "router", "operator"}

func (r Role) String() string {
	if int(r) < len(roles) {
		return roles[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ParseRole returns the role of a name.
func ParseRole(name string) (Role, error) {
	for r, n := range roles {
		if n == name && Role(r) != Nobody {
			return Role(r), nil
		}
	}
	return Nobody, fmt.Errorf("%q is no role (%s)", name, document.Meant(name, roles[Viewer:]))
}
