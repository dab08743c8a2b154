package lab

import (
	"os"
	"path/filepath"
	"sync"
)

// logLimit bounds what is kept of one output, in memory and on disk (bytes); beyond it the oldest half goes.
const logLimit = 8 << 20

// logBuffer is what the lab's owner reads.
type logBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.b)+len(p) > logLimit {
		l.b = append(l.b[:0], l.b[len(l.b)/2:]...)
	}
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// logFile is what others read, also after the owner was killed. It is made with the first byte; when it has half the
// limit it becomes <path>.old and a new one begins.
type logFile struct {
	path string

	mu   sync.Mutex
	f    *os.File
	size int
	shut bool
}

// Write returns no error: a full disk costs the log, not the process.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && l.size+len(p) > logLimit/2 {
		_ = l.f.Close()
		_ = os.Rename(l.path, l.path+".old")
		l.f, l.size = nil, 0
	}
	if l.f == nil && !l.shut {
		_ = os.MkdirAll(filepath.Dir(l.path), 0o755)
		f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return len(p), nil
		}
		l.f = f
	}
	if l.f != nil {
		n, _ := l.f.Write(p)
		l.size += n
	}
	return len(p), nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = l.f.Close()
	}
	l.f, l.shut = nil, true
}
