package answer

import "sync/atomic"

// Counts are of queries and answers since the start.
type Counts struct {
	Queries, Ignored            atomic.Uint64
	Truncated, Omitted, Slipped atomic.Uint64
	DNSSEC, Cookies, Subnets    atomic.Uint64
	Kinds                       [kinds]atomic.Uint64
	codes                       [24]atomic.Uint64
	Slow, Transfers             atomic.Uint64
}

func (c *Counts) code(code int) {
	if code < len(c.codes) {
		c.codes[code].Add(1)
	}
}

// Sum is the numbers of all workers.
type Sum struct {
	Queries, Ignored, Truncated, Omitted, Slipped, DNSSEC, Cookies, Subnets, Slow, Transfers uint64

	Answers map[string]uint64 // by kind
	Refused map[string]uint64 // by code
}

var kindNames = [kinds]string{"positive", "no-data", "no-such-name", "referral", "failure", "routed"}

var codeNames = map[int]string{1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED", 9: "NOTAUTH", 16: "BADVERS"}

// Counts are the numbers of all workers.
func (s *Server) Counts() Sum {
	sum := Sum{Answers: make(map[string]uint64), Refused: make(map[string]uint64)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range kindNames {
		sum.Answers[name] = 0
	}
	delete(sum.Answers, kindNames[failure])
	for _, name := range codeNames {
		sum.Refused[name] = 0
	}
	for _, w := range s.workers {
		c := &w.Counts
		sum.Queries += c.Queries.Load()
		sum.Ignored += c.Ignored.Load()
		sum.Truncated += c.Truncated.Load()
		sum.Omitted += c.Omitted.Load()
		sum.Slipped += c.Slipped.Load()
		sum.DNSSEC += c.DNSSEC.Load()
		sum.Cookies += c.Cookies.Load()
		sum.Subnets += c.Subnets.Load()
		sum.Slow += c.Slow.Load()
		sum.Transfers += c.Transfers.Load()
		for i, name := range kindNames {
			if kind(i) != failure {
				sum.Answers[name] += c.Kinds[i].Load()
			}
		}
		for i, name := range codeNames {
			sum.Refused[name] += c.codes[i].Load()
		}
	}
	return sum
}
