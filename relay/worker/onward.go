package worker

import (
	"golang.org/x/sys/unix"

	"baton/relay/flow"
)

// dial begins the connection to a flow's server.
func (w *Worker) dial(s *split) {
	s.stage = stageConnecting
	fd, errno := newSocket(s.to.Addr())
	if errno != 0 {
		w.count.Refused.Add(1)
		w.do(s, s.state.Fail())
		return
	}
	w.tune(fd)
	errno = connect(fd, s.to)
	if errno != 0 && errno != unix.EINPROGRESS {
		closeFD(fd)
		w.count.Refused.Add(1)
		w.do(s, s.state.Fail())
		return
	}
	if errno := w.attach(s, flow.Server, fd, s.to); errno != 0 {
		closeFD(fd)
		w.do(s, s.state.Fail())
		return
	}
	w.await(s, waitConnect)
}

// connecting looks whether the server is there, and whether the client still is.
func (w *Worker) connecting(s *split) {
	client, server := &s.ends[flow.Client], &s.ends[flow.Server]
	if client.hangup && lostQuietly(client.fd) {
		w.do(s, s.state.Reset(flow.Client))
		return
	}
	if !server.writable {
		return
	}
	if server.hangup {
		if errno, _ := getInt(server.fd, unix.SOL_SOCKET, unix.SO_ERROR); errno != 0 {
			w.count.Refused.Add(1)
			w.do(s, s.state.Fail())
			return
		}
	}
	s.stage = stageMoving
	w.await(s, waitBytes)
	w.do(s, s.state.Connect())
	w.move(s)
}

// lostQuietly tells whether a connection was reset, and leaves what it has to say where it is.
func lostQuietly(fd int32) bool {
	errno, _ := getInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	return errno != 0
}
