package inside

// marks are the control groups' whose sockets are marked.
type marks struct{}

func (m *marks) set([]Group) error          { return nil }
func (m *marks) refresh() ([]string, error) { return nil, nil }
func (m *marks) close() error               { return nil }
