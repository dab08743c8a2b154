package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// youngAge is the age at which a flow's peers are looked after.
const youngAge = 30 * time.Second

// startKeepalive has the kernel notice when a peer of a flow is no more.
func (w *Worker) startKeepalive(s *split) {
	for i := range s.ends {
		if fd := s.ends[i].fd; fd >= 0 {
			keepAlive(fd, w.keepaliveIdle())
			w.setUserTimeout(fd, true)
		}
	}
	w.startWait(&s.waiter, waitLook)
}

// keepaliveIdle is how long a peer says nothing before it is probed.
func (w *Worker) keepaliveIdle() time.Duration { return min(time.Minute, w.cfg.Timeouts.Unacked/2) }

// keepAlive has the kernel probe a peer that is silent for that long, and give the connection up when some probes have had no answer, or
// when giveUp says. The kernel counts in seconds.
func keepAlive(fd int32, idle time.Duration) {
	const (
		probes = 4
		apart  = 4 // in an idle time
	)
	_ = setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPIDLE, max(1, int(idle/time.Second)))
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPINTVL, max(1, int(idle/apart/time.Second)))
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPCNT, probes)
}

// setUserTimeout has the kernel give a connection up when its peer has acknowledged nothing for timeouts.unacked, or not.
func (w *Worker) setUserTimeout(fd int32, on bool) {
	after := time.Duration(0)
	if on {
		after = w.cfg.Timeouts.Unacked
	}
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
}

// checkIdle is when a flow is looked at that bytes need not have moved of. The kernel counts a window that stays shut for timeouts.unacked as
// a peer that does not acknowledge, though it answers all probes (tcp_probe_timer, since Linux 5.11): it has to be told in time.
func (w *Worker) checkIdle(s *split) {
	if idle := w.cfg.Timeouts.Idle; idle > 0 && s.moved+idle <= w.now {
		w.count.Expired[waitLook].Add(1)
		w.drop(s)
		return
	}
	for i := range s.ends {
		if e := &s.ends[i]; e.fd >= 0 && w.checkZeroWindow(e) {
			w.readFailed(s, e.which)
		}
	}
	if s.stage == stageMoving {
		w.startWait(&s.waiter, waitLook)
	}
}

// checkZeroWindow has the kernel be patient with a peer that takes nothing as long as that answers. True: it does not any more.
func (w *Worker) checkZeroWindow(e *end) (gone bool) {
	const unanswered = 2 // probes: one may be on its way
	info, errno := tcpInfo(e.fd)
	if errno != 0 {
		return false
	}
	if shut := info.Unacked == 0 && info.Notsent_bytes > 0; shut != e.patient {
		e.patient = shut
		w.setUserTimeout(e.fd, !shut)
		return false
	}
	return e.patient && info.Probes >= unanswered && time.Duration(info.Last_ack_recv)*time.Millisecond >= w.cfg.Timeouts.Unacked
}
