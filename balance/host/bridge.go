package host

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// vsctlTimeout bounds a command of Open vSwitch, in seconds.
const vsctlTimeout = 20

// ownerKey records the owner of a bridge in Open vSwitch's database, which survives a reboot, unlike the journal.
const ownerKey = "external_ids:baton-balance"

// vsctl runs ovs-vsctl, which waits until the switch has finished. It dies with this process.
func vsctl(args ...string) (string, error) {
	// The kernel sends the signal when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("ovs-vsctl", append([]string{fmt.Sprintf("--timeout=%d", vsctlTimeout)}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ovs-vsctl %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// bridgeOwner returns the owner of a bridge: "" if the bridge does not exist or has none.
func bridgeOwner(name string) (owner string, there bool, err error) {
	names, err := vsctl("list-br")
	if err != nil || !slices.Contains(strings.Fields(names), name) {
		return "", false, err
	}
	owner, err = vsctl("--if-exists", "get", "bridge", name, ownerKey)
	return strings.Trim(owner, `"`), true, err
}

// bridgeQoS returns the record that makes Open vSwitch leave the queues of a bridge's ports alone: without it, existing queues are deleted.
func bridgeQoS(owner string) (id string, err error) {
	out, err := vsctl("--columns=_uuid", "--format=csv", "--data=bare", "--no-headings", "find", "qos", ownerKey+"="+owner)
	id, _, _ = strings.Cut(out, "\n")
	return id, err
}

// freeBridge refuses a bridge that belongs to somebody else.
func (k *stack) freeBridge(b Bridge) error {
	owner, there, err := bridgeOwner(b.Name)
	if err != nil {
		return fmt.Errorf("look for the bridge %s: %w", b.Name, err)
	}
	if there && owner != b.Owner {
		return fmt.Errorf("the Open vSwitch bridge %s exists and is not ours (choose another internal.interface)", b.Name)
	}
	return nil
}

// makeBridge creates or changes the bridge and its ports in one transaction.
func (k *stack) makeBridge(b Bridge) error {
	if was, made := k.bridges[b.Name]; made && same(was, b) {
		return nil
	}
	var there []string
	if _, is, err := bridgeOwner(b.Name); err != nil {
		return err
	} else if is {
		list, err := vsctl("list-ports", b.Name)
		if err != nil {
			return err
		}
		there = strings.Fields(list)
	}
	qos, err := bridgeQoS(b.Owner)
	if err != nil {
		return err
	}
	if _, err := vsctl(bridgeCommand(b, there, qos)...); err != nil {
		return err
	}
	if err := checkPorts(b); err != nil {
		return err
	}
	k.bridges[b.Name] = b
	return nil
}

// bridgeCommand returns the arguments of ovs-vsctl for a bridge with these existing ports and QoS record, or for one to create.
func bridgeCommand(b Bridge, there []string, qos string) []string {
	args := []string{
		"--may-exist", "add-br", b.Name, "--", "set", "bridge", b.Name, "datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13",
		ownerKey + "=" + b.Owner, "other_config:disable-in-band=true",
	}
	if b.Controller == "" {
		args = append(args, "--", "del-controller", b.Name)
	} else {
		args = append(args, "--", "set-controller", b.Name, b.Controller, "--", "set", "controller", b.Name, "connection-mode=out-of-band")
	}
	for _, port := range there {
		if !slices.ContainsFunc(b.Ports, func(p Port) bool { return p.Interface == port }) {
			args = append(args, "--", "--if-exists", "del-port", b.Name, port)
		}
	}
	if qos == "" {
		qos = "@qos"
		args = append(args, "--", "--id="+qos, "create", "qos", "type=linux-noop", ownerKey+"="+b.Owner)
	}
	for _, p := range b.Ports {
		args = append(args, "--", "--may-exist", "add-port", b.Name, p.Interface,
			"--", "set", "interface", p.Interface, "ofport_request="+strconv.Itoa(p.Number), "--", "set", "port", p.Interface, "qos="+qos)
	}
	return args
}

// checkPorts refuses a bridge that could not add the internal port or gave it another number. Links may be added later.
func checkPorts(b Bridge) error {
	internal := b.Ports[0]
	out, err := vsctl("--columns=ofport,error", "--format=csv", "--data=bare", "--no-headings", "find", "interface", "name="+internal.Interface)
	if err != nil {
		return err
	}
	number, fault, _ := strings.Cut(out, ",")
	if number != strconv.Itoa(internal.Number) {
		return fmt.Errorf("port %s is number %s instead of %d: %s", internal.Interface, number, internal.Number, fault)
	}
	return nil
}

func (k *stack) undoBridge(b Bridge) (bool, error) {
	delete(k.bridges, b.Name)
	owner, there, err := bridgeOwner(b.Name)
	if err != nil {
		return false, err
	}
	if there && owner != b.Owner {
		return false, nil
	}
	if there {
		if _, err := vsctl("--if-exists", "del-br", b.Name); err != nil {
			return false, err
		}
	}
	qos, err := bridgeQoS(b.Owner)
	if err != nil || qos == "" {
		return there, err
	}
	_, err = vsctl("--if-exists", "destroy", "qos", qos) // only after its ports
	return true, err
}
