package router

import (
	"baton/router/fields"
	"baton/router/head"
)

// unfitAt is the outcome for a request to which the pool gives fields, if the kernel cannot put them into it; "" if it can, or need not.
// The kernel judges again: it knows more of the packet.
func (s *state) unfitAt(vip int, pool *poolState, p *pending, req *head.Request, headBytes int) string {
	if !pool.cfg.HasFields() {
		return ""
	}
	outcome, _ := fields.Unfit(req, headBytes, p.firstBytes(), s.watched[vip])
	return outcome
}

// unfit is the outcome for a request that the kernel has found to be unfit for fields.
func (s *state) unfit(p *pending) string {
	if vip, ok := s.byAddr[p.vip]; ok {
		if req, n, err := head.Parse(p.contiguous()); err == nil {
			if outcome, _ := fields.Unfit(&req, n, p.firstBytes(), s.watched[vip]); outcome != "" {
				return outcome
			}
		}
	}
	return fields.OutcomeNotInsertable
}
