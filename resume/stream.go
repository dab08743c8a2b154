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

// Stream is the bytes of a file in order. One goroutine may read it.
type Stream struct {
	// Header is that of the first answer that was taken, without what is of that connection or that part alone: later ones lack most of
	// it (RFC 9110, section 15.3.7).
	Header http.Header

	// Restart is called when all bytes that were read are of no use any more, as the file is another one now; reading begins
	// again at its first byte then. While it is nil, or if it fails, that is an error of Read.
	Restart func() error

	ctx      context.Context
	stop     context.CancelFunc
	options  *Options
	fields   http.Header
	sources  []*url.URL // where to ask now
	given    []*url.URL
	at       int // index of the source
	have     part.Have
	tail     tail
	schedule *retry.Schedule
	ledger   ledger
	limit    *rate.Limiter
	lane     *lane
	content  *content
	wide     *wide
	narrow   bool      // no more connections than one, as it did not work
	looked   time.Time // whether a second one pays
	ranges   bool      // a server has answered with a part, or says that it would
	reread   int64     // bytes that were there already and come again, as a server has no ranges
	err      error
}

// Open asks for a file until there is an answer whose content can be taken, or nothing more to try; the error is an [*Error] then. The
// stream has to be closed.
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

// Have is what there is, and what is known of the file.
func (s *Stream) Have() part.Have { return s.have }

// Account is what the download has cost so far.
func (s *Stream) Account() Account { return s.ledger.copy() }

// Close ends the download where it is.
func (s *Stream) Close() error {
	s.stop()
	s.leave(false)
	if s.wide != nil {
		s.lane, s.wide = s.wide.close(), nil
	}
	s.lane.close()
	return nil
}

// Read gives the next bytes. After the last one it is io.EOF; other errors are an [*Error], and stay.
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

// read is one step; without bytes and error there is a next one.
func (s *Stream) read(p []byte) (int, error) {
	switch {
	case s.wide != nil:
		n, err := s.wide.read(p)
		if err == nil {
			return n, nil
		}
		s.lane, s.narrow = s.wide.close(), s.wide.hurt
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
	case errors.Is(err, io.EOF):
		return 0, s.ended()
	}
	return 0, s.broke(asError(err))
}

// ended is where content came to its end. Less than was asked for is not a fault, if it is not next to nothing.
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

// open finds an answer whose content can be taken.
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
		s.lane.renew() // another of its addresses may do better
		s.ledger.add(func(a *Account) { a.Failures++ })
		s.ledger.event(Broke{Error: fault, Why: fault.Err.Error(), Kind: fault.Kind, Server: fault.Server, Offset: s.have.Offset})
		s.sources[s.at] = s.given[s.at] // where a redirect led may be gone
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

// judge does what an answer comes to; done is a file that is complete. The answer is closed unless its content is taken.
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
			return fault, 0, false // another try may find the file that it was
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
		fault.Kind = Status // this mirror is of no use
	}
	t.close()
	return fault, v.After, false
}

// What may come again where servers have no ranges, or there is no validator: so many times as many bytes as there are.
const (
	rereads     = 4
	leastReread = 1 << 20
)

type errorString string

func (e errorString) Error() string { return string(e) }

// sent are the fields of a request: what is between the caller and the host that was named is not for another host that this one has led to.
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

// elsewhere tells whether there are other mirrors, that may still have the file that this one has not.
func (s *Stream) elsewhere() bool {
	return len(s.sources) > 1 && s.have.Offset > s.have.From && s.schedule.Others(s.at)
}

// take begins with the content of an answer.
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

// accept notes the fields of the first answer, and where it came from.
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

// restart throws away what there is. The fault is why, and the error if that cannot be done.
func (s *Stream) restart(v part.Verdict, fault *Error) *Error {
	kept := s.have.Offset - s.have.From
	restarts := s.ledger.copy().Restarts
	if s.Restart == nil && kept > 0 || restarts >= s.options.Restarts {
		fault.GaveUp = "what was taken cannot be taken back"
		if s.Restart != nil {
			fault.GaveUp = "it began again too often"
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

// again waits as the schedule says, or is the error that ends the download.
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

// pause is false if it was cut short.
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
