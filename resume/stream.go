package resume

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"baton/resume/part"
	"baton/resume/retry"
)

// Stream returns the bytes of a file in order. One goroutine may read it.
type Stream struct {
	// Header is that of the first response, without fields of that connection or part: later responses lack most of it (RFC 9110, section
	// 15.3.7).
	Header http.Header

	// Restart is called when the file has changed and all bytes read so far must be discarded; reading then starts over at its first byte.
	// If it is nil, or fails, Read returns an error.
	Restart func() error

	ctx      context.Context
	stop     context.CancelFunc
	options  *Options
	fields   http.Header
	sources  []*url.URL // current URLs
	given    []*url.URL
	at       int // index of the current source
	have     part.Have
	tail     tail
	schedule *retry.Schedule
	ledger   ledger
	limit    *rate.Limiter
	lane     *lane
	content  *content
	wide     *wide
	narrow   bool      // only one connection, because more did not work
	looked   time.Time // when a second connection was last considered
	ranges   bool      // a server has answered with a part, or announces ranges
	reread   int64     // existing bytes received again because the server does not support ranges
	err      error
}

// Open requests a file until there is a usable response, or nothing more to try; the error is then an [*Error]. The caller closes the
// stream.
func (c *Client) Open(ctx context.Context, r Request) (*Stream, error) {
	s, err := c.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c *Client) prepare(ctx context.Context, r Request) (*Stream, error) {
	sources, have, err := r.check(&c.options)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		options: &c.options, fields: r.Header, sources: sources, given: append([]*url.URL(nil), sources...), have: have,
		tail: tail{keep: have.Overlap}, schedule: retry.New(c.options.Retry, len(sources), rand.Float64),
		lane: newLane(c.options.Base, new(rotation), 0),
	}
	s.ledger.events = c.options.Events
	s.tail.add(r.Tail)
	if c.options.Rate > 0 {
		s.limit = rate.NewLimiter(rate.Limit(c.options.Rate), 64<<10)
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s, nil
}

// Have returns the state of the file.
func (s *Stream) Have() part.Have { return s.have }

// Account returns the cost so far.
func (s *Stream) Account() Account { return s.ledger.copy() }

// Close ends the download.
func (s *Stream) Close() error {
	s.stop()
	s.leave(false)
	if s.wide != nil {
		s.lane, s.wide = s.wide.close(), nil
	}
	s.lane.close()
	return nil
}

// Read returns the next bytes. After the last one it returns io.EOF; other errors are an [*Error], and permanent.
func (s *Stream) Read(p []byte) (int, error) {
	if s.limit != nil {
		p = p[:min(len(p), s.limit.Burst())]
	}
	for s.err == nil && len(p) > 0 {
		n, err := s.read(p)
		s.tail.add(p[:n])
		s.have.Offset += int64(n)
		s.err = err
		if n > 0 {
			s.ledger.add(func(a *Account) { a.Bytes += int64(n) })
			s.ledger.event(Progress{Offset: s.have.Offset, From: s.have.From, End: s.have.End()})
		}
		if n > 0 && s.limit != nil && s.limit.WaitN(s.ctx, n) != nil {
			s.err = s.canceled()
		}
		if n > 0 {
			return n, nil
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	return 0, s.err
}

// read is one step; if it returns neither bytes nor an error, there is a next one.
func (s *Stream) read(p []byte) (int, error) {
	switch {
	case s.wide != nil:
		n, err := s.wide.read(p)
		if err == nil {
			return n, nil
		}
		s.lane, s.narrow = s.wide.close(), s.wide.wasHurt()
		s.wide = nil
		var fault *Error
		switch {
		case errors.Is(err, errNarrow):
			return 0, nil
		case errors.As(err, &fault):
			if err := s.restart(part.Verdict{Have: s.have.Again()}, fault); err != nil {
				return 0, err
			}
			return 0, nil
		}
		return 0, s.canceled()
	case s.content == nil && s.have.Done():
		return 0, io.EOF
	case s.content == nil:
		return 0, s.open()
	case s.ahead():
		return 0, nil
	}
	n, err := s.content.Read(p)
	s.ledger.came(s.content.try, s.name(s.content.try), int64(n))
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		return 0, s.ended()
	}
	return 0, s.broke(asError(err))
}

// ended handles the end of content. Less than requested is no fault, unless it is almost nothing.
func (s *Stream) ended() error {
	c := s.content
	if c.left < 0 {
		s.have.Length = s.have.Offset
	}
	s.leave(false)
	if s.have.Done() || c.taken >= 1<<10 {
		return nil
	}
	return s.again(c.failed(Receive, errShort), retry.Failure{Stage: retry.Body, Source: s.at, Bytes: c.taken})
}

func (s *Stream) broke(fault *Error) error {
	c := s.content
	s.leave(fault.broke())
	s.lane.rotation.blame(fault.Server)
	s.lane.renew()
	switch {
	case fault.Kind == Canceled:
		return s.canceled()
	case fault.Kind == Digest, fault.Kind == Changed:
		if err := s.restart(part.Verdict{Have: s.have.Again()}, fault); err != nil {
			return err
		}
		return nil
	}
	s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Bytes: c.taken, Offset: s.have.Offset})
	return s.again(fault, retry.Failure{Stage: retry.Body, Source: s.at, Bytes: c.taken})
}

// leave ends the content.
func (s *Stream) leave(broke bool) {
	if s.content == nil {
		return
	}
	s.ledger.ended(s.lane.id, broke, s.content.taken)
	s.ledger.add(func(a *Account) { a.Wasted += s.content.missed })
	s.content.close()
	s.content = nil
}

// open finds a usable response.
func (s *Stream) open() error {
	for s.content == nil {
		if s.have.Done() && s.have.Offset > s.have.From {
			return nil
		}
		if s.widen() {
			return nil
		}
		s.ledger.add(func(a *Account) { a.Requests++ })
		t, fault := s.lane.ask(s.ctx, s.options, s.sources[s.at], s.sent(), &s.have)
		var after time.Duration
		if fault == nil {
			var done bool
			if fault, after, done = s.judge(t); done {
				return nil
			}
		}
		if fault == nil {
			continue
		}
		switch {
		case s.ctx.Err() != nil:
			return s.canceled()
		case fault.Kind == Output:
			return fault
		}
		s.lane.rotation.blame(fault.Server)
		s.lane.renew() // another of its addresses may work better
		s.ledger.add(func(a *Account) { a.Failures++ })
		s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Offset: s.have.Offset})
		s.sources[s.at] = s.given[s.at] // the target of a redirect may be gone
		stage := fault.stage()
		if stage == retry.Body {
			stage = retry.Head
		}
		if err := s.again(fault, retry.Failure{Stage: stage, Source: s.at, After: after}); err != nil {
			return err
		}
	}
	return nil
}

// judge handles a response; done means that the file is complete. It closes the response unless its content is used.
func (s *Stream) judge(t *try) (fault *Error, after time.Duration, done bool) {
	v := part.Judge(s.have, t.answer())
	if v.Action == part.Restart && s.elsewhere() {
		v.Action = part.Refuse
	}
	switch v.Action {
	case part.Complete:
		s.accept(t, v)
		t.close()
		s.have = v.Have
		return nil, 0, true
	case part.Append:
		if s.have.Offset > s.have.From {
			if s.reread += v.Skip; s.reread > rereads*max(s.have.Offset, leastReread) {
				t.close()
				return t.failed(Unusable, errRereads), 0, false
			}
		}
		s.take(t, v)
		return nil, 0, false
	case part.Restart:
		if fault := s.restart(v, t.failed(refused(v, t.status))); fault != nil {
			t.close()
			return fault, 0, false // another try may find the original file
		}
		if v.Body && !s.have.Done() {
			s.take(t, v)
		} else {
			t.close()
		}
		return nil, 0, false
	}
	fault = t.failed(refused(v, t.status))
	if fault.Kind == Status && s.options.Redirects == 0 && t.response.Header.Get("Location") != "" {
		fault.Err = errorString("redirected to " + t.response.Header.Get("Location"))
	}
	if s.elsewhere() && fault.Kind == Changed || v.Reason == part.Unsatisfied && s.have.Offset == s.have.From {
		fault.Kind = Status // this mirror is useless
	}
	t.close()
	return fault, v.After, false
}

// Without ranges or a validator, bytes may be received again: at most this many times the existing bytes.
const (
	rereads     = 4
	leastReread = 1 << 20
)

type errorString string

func (e errorString) Error() string { return string(e) }

// sent returns the fields of a request: fields meant for the named host are not sent to another host after a redirect.
func (s *Stream) sent() http.Header {
	given, now := s.given[s.at], s.sources[s.at]
	if strings.EqualFold(given.Hostname(), now.Hostname()) && (given.Scheme == now.Scheme || now.Scheme == "https") {
		return s.fields
	}
	fields := s.fields.Clone()
	for _, name := range []string{"Authorization", "Cookie", "Host"} {
		fields.Del(name)
	}
	return fields
}

// elsewhere reports whether there are other mirrors that may still have the original file.
func (s *Stream) elsewhere() bool {
	return len(s.sources) > 1 && s.have.Offset > s.have.From && s.schedule.Others(s.at)
}

// take starts using the content of a response.
func (s *Stream) take(t *try, v part.Verdict) {
	s.accept(t, v)
	s.content = newContent(t, v, s.tail.bytes)
	s.have = v.Have
	s.ranges = s.ranges || t.status == http.StatusPartialContent || t.response.Header.Get("Accept-Ranges") == "bytes"
	s.ledger.answered(t, s.event(t, v), 1)
}

func (s *Stream) event(t *try, v part.Verdict) Answered {
	return Answered{
		Server: t.address, Name: s.name(t), URL: t.response.Request.URL.String(), Protocol: t.response.Proto, Status: t.status,
		Offset: v.Have.Offset, Skip: v.Skip, Length: v.Have.Length, Proof: v.Have.Validator.String(), Coding: v.Have.Coding,
		Lane: t.lane.id, Connect: t.connect, First: t.first,
	}
}

func (s *Stream) name(t *try) string {
	if s.options.ServerHeader == "" {
		return ""
	}
	name := t.response.Header.Get(s.options.ServerHeader)
	return name[:min(len(name), 100)]
}

// accept records the fields of the first response, and its origin.
func (s *Stream) accept(t *try, v part.Verdict) {
	if s.Header == nil || v.Action == part.Restart || v.Have.Offset == v.Have.From {
		s.Header = t.response.Header.Clone()
		for _, name := range []string{"Content-Range", "Content-Length", part.ContentDigest, "Connection", "Keep-Alive", "Transfer-Encoding"} {
			s.Header.Del(name)
		}
	}
	if s.options.Final {
		s.sources[s.at] = t.response.Request.URL
	}
}

// restart discards everything. The fault is the reason, and the error if that is impossible.
func (s *Stream) restart(v part.Verdict, fault *Error) *Error {
	kept := s.have.Offset - s.have.From
	restarts := s.ledger.copy().Restarts
	if s.Restart == nil && kept > 0 || restarts >= s.options.Restarts {
		fault.GaveUp = "bytes that were read from the stream cannot be revoked"
		if s.Restart != nil {
			fault.GaveUp = "it restarted too often"
		}
		return fault
	}
	if s.Restart != nil {
		if err := s.Restart(); err != nil {
			return &Error{Kind: Output, URL: fault.URL, Err: err}
		}
	}
	s.ledger.add(func(a *Account) { a.Restarts++; a.Wasted += kept; a.Bytes -= min(a.Bytes, kept) })
	s.ledger.event(Restarted{Why: fault.Err.Error(), Bytes: kept})
	s.have, s.Header, s.reread = v.Have, nil, 0
	s.tail.bytes = nil
	return nil
}

// again waits as scheduled, or returns the error that ends the download.
func (s *Stream) again(fault *Error, f retry.Failure) error {
	s.ledger.mu.Lock()
	d := s.schedule.Failed(time.Now(), f)
	s.ledger.mu.Unlock()
	if d.GiveUp != "" {
		if fault.GaveUp == "" {
			fault.GaveUp = d.GiveUp
		}
		return fault
	}
	s.at = d.Source
	if d.Wait > 0 {
		s.ledger.event(Waiting{For: d.Wait, URL: s.sources[s.at].String()})
	}
	return s.wait(d.Wait)
}

func (s *Stream) wait(d time.Duration) error {
	if !pause(s.ctx, d) {
		return s.canceled()
	}
	return nil
}

// pause returns false if it was interrupted.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Stream) canceled() error {
	return &Error{Kind: Canceled, URL: s.sources[s.at].String(), Err: context.Cause(s.ctx)}
}

func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Receive, Err: err}
}
