package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"baton/lab/topology"
)

// reportFile is the descriptor on which a background keeper reports the result of its start.
const reportFile = 3

type report struct {
	Record *Record `json:"record,omitempty"`
	Error  string  `json:"error,omitempty"`
	InUse  string  `json:"in_use,omitempty"` // the name that another lab has
}

// Start runs this program again, with these arguments, as a background keeper (RunInBackground), passes it the topology's text, and returns
// when its network is up or has failed. If the context ends earlier, the keeper takes everything down.
func Start(ctx context.Context, args []string, text []byte) (Record, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return Record{}, fmt.Errorf("start the keeper: %w", err)
	}
	defer read.Close()
	var diagnosis bytes.Buffer
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stderr = &diagnosis // until it has its log
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's end is not its own
	err = cmd.Start()
	write.Close()
	if err != nil {
		return Record{}, fmt.Errorf("start the keeper: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	said, err := io.ReadAll(read)
	var r report
	if err == nil && len(said) > 0 {
		err = json.Unmarshal(said, &r)
	}
	if err == nil && r.Record != nil {
		_ = cmd.Process.Release()
		return *r.Record, nil
	}
	failed := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return Record{}, ctx.Err()
	case r.InUse != "":
		return Record{}, &InUseError{r.InUse}
	case r.Error != "":
		return Record{}, errors.New(r.Error)
	}
	return Record{}, fmt.Errorf("the keeper has ended: %w: %s", errors.Join(err, failed), lastLine(diagnosis.String()))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// RunInBackground is what the program that Start executes has to call. It keeps the topology until the context ends.
func RunInBackground(ctx context.Context, t *topology.Topology, file string) error {
	unix.CloseOnExec(reportFile)
	pipe := os.NewFile(reportFile, "report")
	defer pipe.Close()
	send := func(r report) error { return json.NewEncoder(pipe).Encode(r) }
	var log *os.File
	defer func() {
		if log != nil {
			log.Close()
		}
	}()
	ready := false
	err := Keep(ctx, t, file, Options{
		Log: os.Stderr,
		Begun: func(dir string) {
			var err error
			if log, err = os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
				return // without a log, but up
			}
			for fd := 1; fd <= 2; fd++ {
				_ = unix.Dup3(int(log.Fd()), fd, 0)
			}
		},
		Ready: func(r Record) error {
			// Nobody waits any more when whoever asked for the lab was killed: then nobody wants it.
			if err := send(report{Record: &r}); err != nil {
				return fmt.Errorf("report that the lab is up: %w", err)
			}
			ready = true
			return pipe.Close()
		},
	})
	if err != nil && !ready {
		said := report{Error: err.Error()}
		var used *InUseError
		if errors.As(err, &used) {
			said = report{InUse: used.Name}
		}
		_ = send(said)
	}
	return err
}
