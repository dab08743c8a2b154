package router

import (
	"baton/router/config"
	"baton/router/fields"
	"baton/router/head"
	"baton/router/route"
)

// unfitAt is the outcome for a request whose head changes on its way, if the kernel cannot change it; "" if it can, or need not. The kernel
// judges again: it knows more of the packet.
func (s *state) unfitAt(vip int, m *route.Result, p *pending, req *head.Request, headBytes int) string {
	if m.Rewrite == (config.Rewrite{}) && !s.pools[m.Pool].cfg.HasFields() {
		return ""
	}
	outcome, _ := fields.Unfit(req, headBytes, p.firstBytes(), s.watched[vip], m.Rewrite)
	return outcome
}

// unfit is the outcome for a request that the kernel has found to be unfit for what its head should become.
func (s *state) unfit(p *pending) string {
	vip, ok := s.byAddr[p.vip]
	if !ok {
		return fields.OutcomeNotInsertable
	}
	if req, n, err := head.Parse(p.contiguous()); err == nil {
		m, _ := s.routes.Match(vip, &req)
		if outcome, _ := fields.Unfit(&req, n, p.firstBytes(), s.watched[vip], m.Rewrite); outcome != "" {
			return outcome
		}
	}
	return fields.OutcomeNotInsertable
}
