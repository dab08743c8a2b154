package host

import kernel "baton/datapath/balance"

// NeedsOfMarks is what marking the sockets of applications needs of a host.
var NeedsOfMarks = kernel.Needs

// marks are the control groups whose sockets are marked. They go with the process.
type marks struct {
	applications *kernel.Applications // nil: none
}

// set replaces the groups; refresh attaches to those that are created later.
func (m *marks) set(groups []Group) error {
	if m.applications == nil {
		if len(groups) == 0 {
			return nil
		}
		m.applications = &kernel.Applications{Mask: markMask, Least: mark(1)}
	}
	var all []kernel.Application
	for _, g := range groups {
		all = append(all, kernel.Application{Group: g.Path, Mark: g.Mark})
	}
	if err := m.applications.Set(all); err != nil {
		return err
	}
	_, err := m.refresh()
	return err
}

func (m *marks) refresh() (missing []string, err error) {
	if m.applications == nil {
		return nil, nil
	}
	return m.applications.Attach()
}

func (m *marks) close() error {
	if m.applications == nil {
		return nil
	}
	return m.applications.Close()
}
