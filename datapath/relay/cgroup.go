package relay

import "baton/datapath"

// AttachOwnCgroup has the sockets of this process's control group (version 2) looked at; see AttachCgroup. Where none is mounted, as in a
// mount namespace of its own, it is looked at by a mount that nobody sees, which needs CAP_SYS_ADMIN.
func (r *Relay) AttachOwnCgroup() error {
	group, err := datapath.OwnCgroup()
	if err != nil {
		return err
	}
	var h datapath.Hierarchy
	defer h.Close()
	dir, err := h.Dir(group)
	if err != nil {
		return err
	}
	return r.AttachCgroup(dir)
}
