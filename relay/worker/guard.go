package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// youngAge is the age at which a flow's keepalive is set up.
const youngAge = 30 * time.Second

// startKeepalive makes the kernel detect dead peers of a flow.
func (w *Worker) startKeepalive(s *split) {
	for i := range s.ends {
		if fd := s.ends[i].fd; fd >= 0 {
			keepAlive(fd, w.keepaliveIdle())
			w.setUserTimeout(fd, true)
		}
	}
	w.startWait(&s.waiter, waitLook)
}

// keepaliveIdle is the idle time before a peer is probed.
func (w *Worker) keepaliveIdle() time.Duration { return min(time.Minute, w.cfg.Timeouts.Unacked/2) }

// keepAlive makes the kernel probe an idle peer, and close the connection after some unanswered probes, or at the user timeout. The kernel
// counts in seconds.
func keepAlive(fd int32, idle time.Duration) {
	const (
		probes = 4
		apart  = 4 // per idle time
	)
	_ = setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPIDLE, max(1, int(idle/time.Second)))
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPINTVL, max(1, int(idle/apart/time.Second)))
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_KEEPCNT, probes)
}

// setUserTimeout makes the kernel close a connection whose peer acknowledges nothing for timeouts.unacked, or removes that limit.
func (w *Worker) setUserTimeout(fd int32, on bool) {
	after := time.Duration(0)
	if on {
		after = w.cfg.Timeouts.Unacked
	}
	_ = setInt(fd, unix.SOL_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
}

// checkIdle checks a flow periodically, even if no bytes move. The kernel counts a window that stays zero for timeouts.unacked as an
// unresponsive peer, even if it answers all probes (tcp_probe_timer, since Linux 5.11), so the user timeout must be removed in time.
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

// checkZeroWindow removes the user timeout while the peer's window is zero and it answers probes. It returns true if the peer has stopped
// answering.
func (w *Worker) checkZeroWindow(e *end) (gone bool) {
	const unanswered = 2 // probes: one may be in flight
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
