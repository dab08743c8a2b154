package worker

import "golang.org/x/sys/unix"

// pipe holds bytes on their way from socket to socket.
type pipe struct {
	r, w int32
	held int
}

// pipes are a worker's empty pipes, and the size of new ones.
type pipes struct {
	size  int
	empty []*pipe
	open  int
}

const mostEmptyPipes = 64

func (p *pipes) alloc() (*pipe, unix.Errno) {
	if k := len(p.empty); k > 0 {
		q := p.empty[k-1]
		p.empty = p.empty[:k-1]
		return q, 0
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return nil, err.(unix.Errno)
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, p.size) // above the user's limit it keeps its size
	p.open++
	return &pipe{r: int32(fds[0]), w: int32(fds[1])}, 0
}

// free frees a pipe. One that holds bytes is closed.
func (p *pipes) free(q *pipe) {
	if q.held == 0 && len(p.empty) < mostEmptyPipes {
		p.empty = append(p.empty, q)
		return
	}
	closeFD(q.r)
	closeFD(q.w)
	p.open--
}
