package state

import (
	"baton/router/config"
	"baton/router/fields"
	"baton/router/head"
	"baton/router/outcome"
	"baton/router/route"
)

// Unfit is the outcome for a request whose head changes on its way, if the kernel cannot change it; "" if it can, or need not. The
// kernel judges again: it knows more of the packet. headBytes is the length of the head, firstBytes what of it is in the first
// packet.
func (c *Compiled) Unfit(vip int, m *route.Result, req *head.Request, headBytes, firstBytes int) outcome.Outcome {
	if m.Rewrite == (config.Rewrite{}) && !c.Numbered[m.Pool].Config.HasFields() {
		return ""
	}
	why, _ := fields.Unfit(req, headBytes, firstBytes, c.watched[vip], m.Rewrite)
	return why
}

// UnfitForKernel is the outcome for a request that the kernel has found to be unfit for what its head should become. request
// are its bytes, firstBytes the number of them that are in the first packet.
func (c *Compiled) UnfitForKernel(vip int, request []byte, firstBytes int) outcome.Outcome {
	if req, n, err := head.Parse(request); err == nil {
		m, _ := c.Routes.Match(vip, &req)
		if why, _ := fields.Unfit(&req, n, firstBytes, c.watched[vip], m.Rewrite); why != "" {
			return why
		}
	}
	return outcome.NotInsertable
}
