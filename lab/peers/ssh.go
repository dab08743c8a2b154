package peers

import (
	"fmt"

	"baton/lab"
)

const sshConfig = `Port 2222
ListenAddress 127.0.0.1
HostKey {dir}/key
AuthorizedKeysFile {dir}/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
`

// A daemon wants a folder in /run, which the machine need not have; the mount is the script's own.
const sshScript = `mount -t tmpfs run /run && mkdir -m 755 /run/sshd &&
	ssh-keygen -q -t ed25519 -N "" -f key && /usr/sbin/sshd -f sshd_config -E sshd.log &&
	exec ssh -F none -N -l root -p 2222 -i key -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no \
		-o UserKnownHostsFile=/dev/null -o ConnectionAttempts=10 -o ExitOnForwardFailure=yes -L "$0" 127.0.0.1`

// SSHForward is `ssh -L` to a daemon on the same host: all connections are channels of the one between these two, which has windows
// of its own for each. The port leads, perhaps through others, to a server of the Site.
func SSHForward(h *lab.Host, f Forward) *Server {
	h.Lab().T().Helper()
	h.Lab().Need("ssh", "sshd")
	return server{
		host: h, name: "ssh", program: "unshare", version: "ssh", process: "ssh", port: f.Port, probe: "/healthz",
		files: map[string]string{"sshd_config": sshConfig},
		args: func(string) []string {
			return []string{"--mount", "sh", "-c", sshScript, fmt.Sprintf("*:%d:%s", f.Port, f.To)}
		},
	}.start()
}
