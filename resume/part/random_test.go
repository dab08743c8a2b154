package part_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"baton/resume/part"
)

// version is a representation of the file that the server of the model has at some time.
type version struct {
	bytes  []byte
	tag    string // with W/ if it is weak, "" for none
	date   string
	made   string // Date of its answers
	digest bool
	coding string
}

// versions differ in every byte, as those of a keyed random sequence do; their validators are true: a strong one belongs to one of
// them, a weak one may belong to several.
func versions(random *rand.Rand) []version {
	all := make([]version, 1+random.IntN(3))
	length := random.IntN(60)
	for i := range all {
		v := &all[i]
		if random.IntN(3) == 0 {
			length = random.IntN(60)
		}
		v.bytes = make([]byte, length)
		for at := range v.bytes {
			v.bytes[at] = byte(i<<6 | at)
		}
		v.made = noon1
		switch random.IntN(5) {
		case 0, 1:
			v.tag = fmt.Sprintf(`"%d"`, i)
		case 2:
			v.tag = `W/"weak"`
		case 3:
			v.date = []string{noon, noon1}[random.IntN(2)]
			if v.date == noon { // strong, so that it is this version's alone
				v.date = fmt.Sprintf("Mon, 02 Mar 2026 11:00:%02d GMT", i)
			}
		case 4: // versions of the same second, of which the last one alone is answered later
			v.date = noon1
			if random.IntN(2) == 0 {
				v.tag = fmt.Sprintf(`"%d"`, i)
			}
		}
		v.digest = random.IntN(4) == 0
		if random.IntN(6) == 0 {
			v.coding = "gzip"
		}
	}
	all[len(all)-1].made = noon5
	return all
}

func (v *version) header() http.Header {
	h := http.Header{"Date": {v.made}}
	if v.tag != "" {
		h.Set("ETag", v.tag)
	}
	if v.date != "" {
		h.Set("Last-Modified", v.date)
	}
	if v.coding != "" {
		h.Set("Content-Encoding", v.coding)
	}
	if v.digest {
		sum := sha256.Sum256(v.bytes)
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	}
	return h
}

// serve answers as some server might that does not lie: it ignores ranges or conditions, gives less or begins earlier, forgets fields,
// breaks off anywhere. whole reports whether the content is complete.
func serve(random *rand.Rand, v *version, asked http.Header) (a part.Answer, content []byte, whole bool) {
	a = part.Answer{Status: 200, Header: v.header()}
	content = v.bytes
	honest := random.IntN(3) > 0
	odd := func(n int) bool { return !honest && random.IntN(n) == 0 }
	if odd(8) {
		return part.Answer{Status: []int{204, 304, 404, 412, 429, 503}[random.IntN(6)], Header: http.Header{}}, nil, true
	}
	first, last, ok := ranged(asked.Get("Range"), len(v.bytes))
	condition := asked.Get("If-Range")
	if asked.Get("Range") != "" && !odd(4) && (condition == "" || condition == v.tag || condition == v.date || odd(2)) {
		switch {
		case !ok:
			a.Status = 416
			if !odd(3) {
				a.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(v.bytes)))
			}
			return a, nil, true
		case odd(3):
			first = random.IntN(first + 1)
		case odd(3):
			last = first + random.IntN(last-first+1)
		case odd(6) && last > first:
			first++
		}
		a.Status, content = 206, v.bytes[first:last+1]
		total := strconv.Itoa(len(v.bytes))
		if odd(4) {
			total = "*"
		}
		a.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", first, last, total))
	}
	for _, name := range []string{"ETag", "Last-Modified", "Repr-Digest", "Date"} {
		if odd(6) {
			a.Header.Del(name)
		}
	}
	a.Length = int64(len(content))
	if odd(3) {
		a.Length = -1
	}
	if len(content) > 0 && random.IntN(3) > 0 {
		return a, content[:random.IntN(len(content))], false
	}
	return a, content, true
}

// ranged reads a single range; ok is false when it cannot be satisfied.
func ranged(s string, length int) (first, last int, ok bool) {
	s = strings.TrimPrefix(s, "bytes=")
	a, b, _ := strings.Cut(s, "-")
	last = length - 1
	if a == "" {
		n, _ := strconv.Atoi(b)
		return max(0, length-n), last, n > 0 && length > 0
	}
	first, _ = strconv.Atoi(a)
	if b != "" {
		n, _ := strconv.Atoi(b)
		last = min(last, n)
	}
	return first, last, first < length && first <= last
}

// download is a client that does what verdicts say, and nothing more.
func download(random *rand.Rand, h part.Have, all []version) (kept []byte, done part.Have, complete bool) {
	now := random.IntN(len(all))
	for range 40 {
		if random.IntN(4) == 0 {
			now = random.IntN(len(all))
		}
		asked := make(http.Header)
		h.Ask(asked)
		a, content, whole := serve(random, &all[now], asked)
		v := part.Judge(h, a)
		switch v.Action {
		case part.Complete:
			return kept, v.Have, true
		case part.Restart:
			h, kept = v.Have, nil
			if !v.Body {
				continue
			}
		case part.Append:
			if v.Equal > 0 {
				skipped := content[:min(int64(len(content)), v.Skip)]
				if int64(len(skipped)) < v.Skip || !bytes.HasSuffix(skipped, kept[int64(len(kept))-v.Equal:]) {
					h, kept = h.Again(), nil
					continue
				}
			}
			h = v.Have
		default:
			continue
		}
		content = content[min(v.Skip, int64(len(content))):]
		if v.Size >= 0 {
			content = content[:min(v.Size, int64(len(content)))]
		}
		kept = append(kept, content...)
		h.Offset += int64(len(content))
		if h.Done() || whole && a.Status == 200 {
			return kept, h, true
		}
	}
	return kept, h, false
}

// TestRandomServers: whatever servers do that do not lie about what they send, a download that is complete has the bytes of one version.
func TestRandomServers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	complete, restarted := 0, 0
	for range 60_000 {
		all := versions(random)
		h := part.Fresh()
		switch random.IntN(4) {
		case 0:
			h.From = int64(random.IntN(40))
			h.Offset = h.From
		case 1:
			h.From = int64(random.IntN(40))
			h.Offset, h.Until = h.From, h.From+1+int64(random.IntN(40))
		case 2:
			h.Suffix = 1 + int64(random.IntN(40))
		}
		if random.IntN(3) == 0 {
			h.Overlap = 1 + int64(random.IntN(20))
		}
		kept, done, ok := download(random, h, all)
		if !ok {
			restarted++
			continue
		}
		complete++
		valid := done.Length == done.Offset && len(kept) == 0 // no content
		for i := range all {
			valid = valid || bytes.Equal(kept, wanted(h, all[i].bytes))
		}
		if !valid {
			t.Fatalf("wanted %+v, complete with % x, have %+v; versions %+v", h, kept, done, all)
		}
	}
	if complete < 20_000 || restarted < 100 {
		t.Errorf("%d complete, %d not: the servers are too kind, or too cruel", complete, restarted)
	}
}

// wanted are the bytes that a download of this version should give.
func wanted(h part.Have, b []byte) []byte {
	length := int64(len(b))
	if h.Suffix > 0 {
		return b[max(0, length-h.Suffix):]
	}
	from, until := min(h.From, length), length
	if h.Until >= 0 {
		until = min(until, h.Until)
	}
	return b[from:max(from, until)]
}

// FuzzJudge holds verdicts on any answer against what a verdict may be.
func FuzzJudge(f *testing.F) {
	f.Add(206, "bytes 500-999/1000", `"a"`, noon, "", int64(500), int64(500), int64(-1), int64(1000), int64(0))
	f.Add(200, "", `W/"a"`, "", "gzip", int64(-1), int64(1), int64(7), int64(-1), int64(64))
	f.Add(416, "bytes */5", `"a"`, "", "", int64(0), int64(5), int64(-1), int64(-1), int64(0))
	f.Add(416, "bytes */5", `"a" `, "", "", int64(90), int64(5), int64(-1), int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, status int, rng, tag, date, coding string, length, offset, until, known, overlap int64) {
		if offset < 0 || offset > 1<<50 || until < -1 || known < -1 || overlap < 0 || length < -1 || known >= 0 && offset > known {
			return
		}
		h := part.Have{Offset: offset, Until: until, Length: known, Validator: part.Validator{Tag: `"a"`}, Overlap: overlap}
		if h.Done() {
			return // nothing is asked for then
		}
		a := part.Answer{Status: status, Length: length, Header: http.Header{
			"Content-Range": {rng}, "Etag": {tag}, "Last-Modified": {date}, "Content-Encoding": {coding}, "Date": {noon1}}}
		same := strings.Trim(tag, " \t") == h.Validator.Tag // white space around a field is no part of it (RFC 9110, 5.5)
		v := part.Judge(h, a)
		if v.Skip < 0 || v.Size < -1 || v.Equal < 0 || v.Equal > v.Skip || v.After < 0 {
			t.Fatalf("impossible: %+v", v)
		}
		switch v.Action {
		case part.Append:
			if v.Have.Offset != h.Offset || h.Offset > 0 && !same && v.Equal == 0 {
				t.Fatalf("appended: %+v", v)
			}
			if end := v.Have.End(); end >= 0 && v.Size >= 0 && v.Have.Offset+v.Size > end {
				t.Fatalf("%d bytes at %d of %d", v.Size, v.Have.Offset, end)
			}
		case part.Complete:
			if h.Offset > 0 && !same {
				t.Fatalf("complete: %+v", v)
			}
		case part.Restart:
			if v.Have.Offset != 0 || h.Offset == 0 {
				t.Fatalf("restart: %+v", v)
			}
		case part.Refuse, part.Later:
			if v.Reason == "" {
				t.Fatalf("refused without a reason")
			}
		}
	})
}
