package document

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// SocketPathLength is the longest path of a socket, in bytes: sun_path without its final NUL (unix(7)).
const SocketPathLength = 107

// SocketPath decodes the absolute path of a socket.
func (d *Decoder) SocketPath(path string, n *Node) string {
	return d.absolute(path, n, SocketPathLength)
}

// FilePath decodes the absolute path of a file, of at most PATH_MAX bytes without its final NUL.
func (d *Decoder) FilePath(path string, n *Node) string { return d.absolute(path, n, 4095) }

func (d *Decoder) absolute(path string, n *Node, limit int) string {
	if d.told(n, pathSchema) {
		return ""
	}
	s := d.Text(path, n)
	if d.err == nil && (s[0] != '/' || len(s) > limit) {
		d.WrongText(n, path, s, "is not usable as a path", fmt.Sprintf("an absolute path of at most %d bytes", limit))
	}
	return s
}

// ReadFile reads a regular file that a document names, of at most limit bytes, and returns its permissions.
func ReadFile(path string, limit int64) ([]byte, os.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not keep the process waiting
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &os.PathError{Op: "read", Path: path, Err: errors.New("not an ordinary file")}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &os.PathError{Op: "read", Path: path, Err: fmt.Errorf("longer than %d bytes", limit)}
	}
	return data, info.Mode().Perm(), err
}

// RefuseFile refuses the file that the value at path names. The message leaves out the operation and the name that the error may
// contain, and says what to do where that is known.
func (d *Decoder) RefuseFile(path, file string, err error) { d.refuseFile(path, file, err, "") }

// refuseFile is RefuseFile with what the file has to be otherwise.
func (d *Decoder) refuseFile(path, file string, err error, valid string) {
	var cause *os.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		valid = "create it, or name another file"
	case errors.Is(err, fs.ErrPermission):
		valid = fmt.Sprintf("a file that user %d may read", os.Geteuid())
	}
	d.Refuse(path, fmt.Sprintf("%q: %v", Clip(file), err), valid)
}
