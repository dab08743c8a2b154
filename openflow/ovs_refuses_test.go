package openflow_test

import (
	"errors"
	"strings"
	"testing"

	. "baton/openflow"
)

// prefixes are those of the names of error codes in C.
var prefixes = map[ErrorType]string{
	ErrorBadRequest: "OFPBRC_", ErrorBadAction: "OFPBAC_", ErrorBadInstruction: "OFPBIC_", ErrorBadMatch: "OFPBMC_",
	ErrorFlowModFailed: "OFPFMFC_", ErrorGroupModFailed: "OFPGMFC_", ErrorPortModFailed: "OFPPMFC_", ErrorTableModFailed: "OFPTMFC_",
	ErrorQueueOpFailed: "OFPQOFC_", ErrorSwitchConfigFailed: "OFPSCFC_", ErrorRoleRequestFailed: "OFPRRFC_",
	ErrorMeterModFailed: "OFPMMFC_", ErrorTableFeaturesFailed: "OFPTFFC_",
}

// ovsCode is the name that Open vSwitch has for a code.
func ovsCode(c Code) string {
	_, name, _ := strings.Cut(c.String(), "/")
	switch c {
	case BadRequestBadExperimenter, BadActionBadExperimenter:
		name = "BAD_VENDOR"
	case BadRequestBadMultipart:
		name = "BAD_STAT"
	}
	return prefixes[c.Type()] + name
}

// ovsDiffers are the cases that Open vSwitch 3.1 judges otherwise, with its code, empty where its printer accepts them. The matches of
// TestMatchCheck have "match: " before their name.
var ovsDiffers = map[string]string{
	// Baton's actions mean nothing to it.
	"inc_seq of 24 bytes":        "OFPBAC_BAD_VENDOR",
	"action of Baton of 8 bytes": "OFPBAC_BAD_VENDOR",
	"action of Baton, unknown":   "OFPBAC_BAD_VENDOR",
	"action of Baton":            "OFPBAC_BAD_VENDOR",
	"window shift":               "OFPBAC_BAD_VENDOR",
	// It calls these a request of a wrong length; the specification has a code for the part that is wrong.
	"match without padding":                "OFPBRC_BAD_LEN",
	"instruction of 4 bytes":               "OFPBRC_BAD_LEN",
	"action of 4 bytes":                    "OFPBRC_BAD_LEN",
	"action of 12 bytes":                   "OFPBRC_BAD_LEN",
	"packet out, actions past the end":     "OFPBRC_BAD_LEN",
	"unknown type of a known experimenter": "OFPBRC_BAD_LEN",
	// It prints what a switch would refuse, or judges it elsewhere.
	"version":                       "",
	"hello element of no length":    "",
	"what a switch says":            "",
	"a reply":                       "",
	"table config":                  "",
	"port mod of a reserved port":   "",
	"port mod, mask":                "",
	"packet out without a port":     "",
	"packet out, short":             "",
	"goto all tables":               "",
	"output to no port":             "",
	"output to the tables":          "",
	"group of all":                  "",
	"group command":                 "",
	"group number":                  "",
	"meter number 0":                "",
	"meter of all":                  "",
	"meter flags":                   "",
	"match: mask where none may be": "",
	// It judges the instructions of deletions, too.
	"deletion with an unknown instruction": "OFPBIC_UNKNOWN_INST",
	// It has another code, some of later versions, or another limit.
	"match of the deprecated type":   "OFPBMC_BAD_LEN",
	"field of a wrong length":        "OFPBMC_BAD_FIELD",
	"half a mask":                    "OFPBMC_BAD_FIELD",
	"plain inc_seq of 16 bytes":      "OFPBAC_BAD_TYPE",
	"set-field past its action":      "OFPBMC_BAD_LEN",
	"set-field in a longer action":   "OFPBAC_BAD_SET_ARGUMENT",
	"table of 8 bytes":               "OFPBPC_BAD_LEN",
	"table property":                 "OFPTFFC_BAD_FEATURES",
	"instruction twice":              "OFPBIC_DUP_INST",
	"push of no service tag":         "OFPBAC_BAD_TYPE",
	"set-field":                      "OFPBAC_MATCH_INCONSISTENT",
	"set-field of in_port":           "OFPBAC_BAD_SET_ARGUMENT",
	"set-field of an unknown field":  "OFPBAC_BAD_SET_LEN",
	"set-field with a mask":          "OFPBAC_BAD_SET_MASK",
	"indirect group":                 "OFPGMFC_WATCH_UNSUPPORTED",
	"fast failover without watching": "OFPGMFC_INVALID_GROUP",
	"bucket with a bad action":       "OFPGMFC_WATCH_UNSUPPORTED",
	"match: physical port alone":     "OFPBMC_BAD_FIELD",
	"match: physical port":           "OFPBMC_BAD_FIELD",
	"match: wrong length":            "OFPBMC_BAD_FIELD",
}

// TestOpenVSwitchRefuses: ovs-ofctl finds the same wrong with every message that is refused here, but for known differences.
func TestOpenVSwitchRefuses(t *testing.T) {
	var names []string
	var all [][]byte
	add := func(name string, b []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		names, all = append(names, name), append(all, b)
	}
	for _, r := range refusals {
		b := annotated(t, r.bytes)
		b[3] = byte(len(b))
		add(r.name, b, nil)
	}
	for _, c := range checks {
		b, err := Append(nil, 1, c.m)
		add(c.name, b, err)
	}
	for _, m := range matches {
		b, err := Append(nil, 1, flow(m.m))
		add("match: "+m.name, b, err)
	}
	for i, said := range ovsPrints(t, all) {
		theirs, ours := "", ourJudgement(all[i])
		if m := decodeError.FindStringSubmatch(said); m != nil {
			theirs = m[1]
		}
		other, differs := ovsDiffers[names[i]]
		if strings.Contains(names[i], "bind") { // as Baton's other actions
			other, differs = "OFPBAC_BAD_VENDOR", true
		}
		if theirs != ours && (!differs || theirs != other) {
			t.Errorf("%s: Open vSwitch says %q, we %q", names[i], theirs, ours)
		}
	}
}

func ourJudgement(b []byte) string {
	_, m, err := Decode(b)
	if err == nil {
		err = Check(m)
	}
	if f := (*Fault)(nil); errors.As(err, &f) {
		return ovsCode(f.Code)
	}
	return ""
}
