package datapath

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/cilium/ebpf"
)

// Refusal says that the kernel's verifier refuses a program of ours. Its text is one line.
type Refusal struct {
	Program, Release string
	Reason           string   // the last thing that the verifier says
	Log              []string // all that it says: up to some hundred thousand lines
	cause            error
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("program %s is refused by Linux %s: %s; please report this, with the log of run --log-level debug", r.Program, r.Release, r.Reason)
}

// Unwrap returns the kernel's error.
func (r *Refusal) Unwrap() error { return r.cause }

// LoadObjects loads programs and maps into a struct of bpf2go's. A verifier's refusal is a Refusal; the verifier's log then goes to the process's
// log, at the level debug.
func LoadObjects(spec *ebpf.CollectionSpec, objects any, o *ebpf.CollectionOptions) error {
	err := explain(spec.LoadAndAssign(objects, o))
	var refusal *Refusal
	if errors.As(err, &refusal) {
		for _, line := range refusal.Log {
			slog.Debug("verifier", "program", refusal.Program, "line", line)
		}
	}
	return err
}

// ofProgram is in the errors of cilium/ebpf.
var ofProgram = regexp.MustCompile(`\bprogram (\w+): `)

// explain makes a verifier's refusal in an error of cilium/ebpf a Refusal, whatever is around it. Without a log it is not the verifier that refuses,
// but a lack of rights or memory.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var verifier *ebpf.VerifierError
	if !errors.As(err, &verifier) || len(verifier.Log) == 0 {
		return fmt.Errorf("load the program: %w", err)
	}
	r := &Refusal{Program: "without a name", Release: Release(), Reason: reasonOf(verifier), Log: verifier.Log, cause: verifier.Cause}
	if m := ofProgram.FindStringSubmatch(err.Error()); m != nil {
		r.Program = m[1]
	}
	return r
}

// statistics are lines after the reason.
var statistics = regexp.MustCompile(`^(processed \d+ insns|verification time |stack depth |\(\d+ line)`)

// reasonOf is the last line of a verifier's log that is not one of its statistics.
func reasonOf(v *ebpf.VerifierError) string {
	for i := len(v.Log) - 1; i >= 0; i-- {
		line := strings.TrimSpace(v.Log[i])
		if line != "" && !statistics.MatchString(line) {
			return line
		}
	}
	return v.Cause.Error()
}
