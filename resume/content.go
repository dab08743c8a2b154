package resume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"baton/resume/part"
)

// content is the new part of a response: its bytes without those that exist already.
type content struct {
	*try
	skip   int64
	equal  []byte // expected value of the last skipped bytes
	left   int64  // most bytes to take, -1: all
	taken  int64
	missed int64 // received but discarded
	fault  error // after the last byte
	check  *part.Check
	pace   pace
}

func newContent(t *try, v part.Verdict, tail []byte) *content {
	c := &content{try: t, skip: v.Skip, left: -1, pace: pace{limit: t.options.SpeedLimit, over: t.options.SpeedTime}}
	c.check = part.NewCheck(part.ParseDigests(t.response.Header, part.ContentDigest))
	if v.Size >= 0 {
		c.left = v.Size
	}
	c.equal = tail[int64(len(tail))-v.Equal:]
	return c
}

// Read returns bytes. io.EOF means that everything requested was read; other errors are an [*Error]. It never returns bytes together with
// an error.
func (c *content) Read(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	if c.left >= 0 {
		p = p[:min(int64(len(p)), c.left)]
	}
	for c.left != 0 && c.fault == nil {
		n, err := c.receive(p)
		c.taken += int64(n)
		if c.left >= 0 {
			c.left -= int64(n)
		}
		switch c.fault = err; {
		case err == io.EOF && c.left > 0:
			c.fault = c.failed(Receive, errShort)
		case err != nil && err != io.EOF:
			c.fault = c.broke(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	if c.left == 0 || c.fault == io.EOF {
		return 0, c.end()
	}
	return 0, c.fault
}

// pass skips bytes that exist already, and compares them if necessary.
func (c *content) pass() error {
	if c.skip == 0 {
		return nil
	}
	b := make([]byte, min(c.skip, 64<<10))
	for c.skip > 0 {
		n, err := c.receive(b[:min(c.skip, int64(len(b)))])
		c.missed += int64(n)
		if err := c.compare(b[:n]); err != nil {
			return err
		}
		c.skip -= int64(n)
		if err != nil && c.skip > 0 || err != nil && err != io.EOF {
			if err == io.EOF {
				return c.failed(Receive, errShort)
			}
			return c.broke(err)
		}
	}
	return nil
}

// compare checks the bytes that begin c.skip before the first new one against the kept ones.
func (c *content) compare(b []byte) error {
	behind := int64(len(c.equal))
	if before := c.skip - behind; before > 0 {
		b = b[min(before, int64(len(b))):]
	}
	if n := int64(len(b)); n > 0 && behind > 0 {
		at := behind - min(c.skip, behind)
		if !bytes.Equal(b, c.equal[at:at+n]) {
			return c.failed(Changed, errors.New("the reread bytes have changed"))
		}
	}
	return nil
}

// receive reads with the clock running: time that the reader takes is not the server's fault.
func (c *content) receive(p []byte) (int, error) {
	began := time.Now()
	c.watch.Reset(c.options.Stall)
	n, err := c.response.Body.Read(p)
	if !c.watch.Stop() && err == nil {
		err = errStalled
	}
	if c.check != nil {
		c.check.Write(p[:n])
	}
	if err == nil && c.pace.slow(n, time.Since(began)) {
		err = errSlow
	}
	return n, err
}

// end is called when everything requested was read. Content that ends there is drained, so that the connection can be reused.
func (c *content) end() error {
	var b [1]byte
	c.watch.Reset(min(c.options.Stall, time.Second))
	n, err := c.response.Body.Read(b[:])
	c.watch.Stop()
	ended := n == 0 && err == io.EOF
	if ended && c.closes() && cut(c.net) {
		if c.left < 0 {
			return c.failed(Receive, errTruncated)
		}
		return io.EOF
	}
	if ended {
		if err := c.check.Err(); err != nil {
			return c.failed(Digest, err)
		}
	}
	return io.EOF
}

// broke returns why the content ended early.
func (c *content) broke(err error) error {
	kind := Receive
	switch {
	case errors.Is(err, errSlow):
		kind = Stalled
	case c.response.Request.Context().Err() != nil || errors.Is(err, errStalled):
		if cause := context.Cause(c.response.Request.Context()); cause != nil {
			err = cause
		}
		if kind = Canceled; errors.Is(err, errStalled) {
			kind = Stalled
		}
	}
	return c.failed(kind, fmt.Errorf("read the content: %w", err))
}

// pace detects content that arrives too slowly, over periods of waiting.
type pace struct {
	limit int64 // bytes per second, 0: no limit
	over  time.Duration
	spent time.Duration
	bytes int64
}

func (p *pace) slow(n int, took time.Duration) bool {
	if p.limit == 0 {
		return false
	}
	p.spent += took
	p.bytes += int64(n)
	if p.spent < p.over {
		return false
	}
	slow := float64(p.bytes) < float64(p.limit)*p.spent.Seconds()
	p.spent, p.bytes = 0, 0
	return slow
}
