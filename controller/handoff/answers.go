package handoff

import (
	"time"

	"baton/controller/switches"
)

// await has a session watched until its surrogate's answer begins. The lock is held.
func (m *Manager) await(h *handoff) {
	h.due = time.Now().Add(m.o.Answer)
	m.awaited = append(m.awaited, h)
}

// answered notes that the surrogate's answer has begun: the controller needs no more of it. The lock is held.
func (m *Manager) answered(h *handoff) {
	if h.answered {
		return
	}
	h.answered = true
	if h.stage == handedOver {
		m.settle(h)
	}
}

// settle tells that the surrogate of a handed-over session answers. The lock is held.
func (m *Manager) settle(h *handoff) {
	m.endCopies(h)
	m.o.Heard(h.record.Surrogate, true)
}

// unwatch has a session that takes another path be watched no more: the copies go by the old one. The lock is held.
func (m *Manager) unwatch(h *handoff) {
	if !h.answered {
		h.answered = true
		m.endCopies(h)
	}
}

// endCopies ends those of a surrogate's first packets. The lock is held.
func (m *Manager) endCopies(h *handoff) {
	for _, mod := range h.plan.Mods {
		if mod.Priority == switches.PriorityAnswer {
			m.send(mod.Switch, strictly(mod.FlowMod))
		}
	}
}

// overdue counts the sessions whose surrogates have acknowledged a request and not begun to answer it in time. The lock is held.
func (m *Manager) overdue(now time.Time) {
	for len(m.awaited) > 0 && !now.Before(m.awaited[0].due) {
		h := m.awaited[0]
		m.awaited[0] = nil
		m.awaited = m.awaited[1:]
		if h.answered || h.closed || m.handoffs[h.id] != h {
			continue
		}
		m.counts.Unanswered[h.record.Surrogate]++
		m.o.Log.Warn("a surrogate has acknowledged a request and does not answer it", "client", h.client.From, "surrogate", h.record.Surrogate, "request", h.record.Request,
			"for", m.o.Answer)
		m.o.Heard(h.record.Surrogate, false)
	}
}
