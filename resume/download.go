package resume

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"baton/resume/part"
)

// Keeper is an output that can start over. Any other output is a plain io.Writer.
type Keeper interface {
	io.Writer
	Restart() error         // discards everything written
	Note(h part.Have) error // state of the file, before its first byte is written, and whenever bytes were written
}

// Result is a finished download, successful or not.
type Result struct {
	Have    part.Have   // what exists now
	Header  http.Header // see Stream
	Account Account
}

// Download writes a file in order. Bytes that exist already, according to r.Have, are not written again; kept reads them from r.Have.From
// on, and may be nil if there are none. The bytes are checked against want and, if they are the whole file, against a digest from a server;
// a mismatch is an error of Kind Digest. The error is nil or an [*Error]; only without an error is the file complete.
func (c *Client) Download(ctx context.Context, r Request, w io.Writer, want part.Digests, kept io.Reader) (Result, error) {
	s, err := c.prepare(ctx, r)
	if err != nil {
		return Result{}, err
	}
	defer s.Close()
	d := download{Stream: s, w: w, want: want}
	d.keeper, _ = w.(Keeper)
	if d.keeper != nil {
		s.Restart = d.restart
	}
	err = d.run(kept)
	return Result{Have: s.have, Header: s.Header, Account: s.Account()}, err
}

type download struct {
	*Stream
	w       io.Writer
	keeper  Keeper
	want    part.Digests
	checks  []*part.Check
	checked bool // the checks are chosen
}

func (d *download) restart() error {
	d.checks, d.checked = nil, false
	return d.keeper.Restart()
}

func (d *download) run(kept io.Reader) error {
	b := make([]byte, 256<<10)
	if d.have.Offset > d.have.From {
		if err := d.check(kept); err != nil {
			return err
		}
	}
	for noted := false; ; {
		n, err := d.Read(b)
		if !d.checked {
			if err := d.check(nil); err != nil {
				return err
			}
			noted = false
		}
		if !noted && (err == nil || err == io.EOF) { // a response has arrived: the existing part is of the same file
			if err := d.note(); err != nil {
				return err
			}
			noted = true
		}
		if n > 0 {
			for _, check := range d.checks {
				check.Write(b[:n])
			}
			if _, err := d.w.Write(b[:n]); err != nil {
				return d.output(err)
			}
			if err := d.note(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return d.finish()
		}
		if err != nil {
			return err
		}
	}
}

// check selects the checks, and reads the kept bytes.
func (d *download) check(kept io.Reader) error {
	d.checked = true
	if c := part.NewCheck(d.want); c != nil {
		d.checks = append(d.checks, c)
	}
	if c := part.NewCheck(d.have.Digests); c != nil && d.have.From == 0 && d.have.Until < 0 {
		d.checks = append(d.checks, c)
	}
	if kept != nil && len(d.checks) > 0 {
		var all []io.Writer
		for _, c := range d.checks {
			all = append(all, c)
		}
		if _, err := io.CopyN(io.MultiWriter(all...), kept, d.have.Offset-d.have.From); err != nil {
			return d.output(fmt.Errorf("read the existing bytes: %w", err))
		}
	}
	return nil
}

func (d *download) note() error {
	if d.keeper == nil {
		return nil
	}
	if err := d.keeper.Note(d.have); err != nil {
		return d.output(err)
	}
	return nil
}

// finish compares the result with the announced length and digests.
func (d *download) finish() error {
	if !d.have.Done() {
		return &Error{Kind: Receive, URL: d.sources[d.at].String(), Err: errShort}
	}
	if err := d.note(); err != nil {
		return err
	}
	for _, c := range d.checks {
		if err := c.Err(); err != nil {
			return &Error{Kind: Digest, URL: d.sources[d.at].String(), Err: err}
		}
	}
	return nil
}

func (d *download) output(err error) error {
	return &Error{Kind: Output, URL: d.sources[d.at].String(), Err: err}
}
