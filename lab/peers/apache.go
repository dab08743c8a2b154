package peers

import (
	"fmt"

	"baton/lab"
)

// ApacheOptions change Debian's defaults. The zero value keeps them.
type ApacheOptions struct {
	Name      string // value of Header; default: the host's name
	Port      int    // default: 80
	Keepalive int    // KeepAliveTimeout, seconds; default: 5
	Requests  int    // MaxKeepAliveRequests; default: 100
	Config    string // more text for the configuration; {dir} is its folder
}

// Apache serves the lab's Site with the event MPM.
func Apache(h *lab.Host, o ApacheOptions) *Server {
	h.Lab().T().Helper()
	name, port := orDefault(o.Name, h.Name()), orDefault(o.Port, 80)
	config := `ServerRoot {dir}
DefaultRuntimeDir {dir}
PidFile {dir}/apache.pid
ErrorLog {dir}/error.log
`
	for _, m := range []string{"mpm_event", "authz_core", "dir", "mime", "headers", "reqtimeout"} {
		config += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", m, m)
	}
	// The figures are those of apache2.conf, mpm_event.conf and reqtimeout.conf in Debian.
	config += fmt.Sprintf(`User %s
ServerName localhost
Listen %d
TypesConfig /dev/null
Timeout 300
KeepAlive On
MaxKeepAliveRequests %d
KeepAliveTimeout %d
HostnameLookups Off
LogFormat "%%h %%l %%u %%t \"%%r\" %%>s %%O" short
CustomLog {dir}/access.log short
StartServers 2
MinSpareThreads 25
MaxSpareThreads 75
ThreadLimit 64
ThreadsPerChild 25
MaxRequestWorkers 150
RequestReadTimeout header=20-40,minrate=500
RequestReadTimeout body=10,minrate=500
Header always set %s %s
DocumentRoot %s
<Directory %s>
	Require all granted
</Directory>
`, account(), port, orDefault(o.Requests, 100), orDefault(o.Keepalive, 5), Header, name,
		Site(h.Lab()), Site(h.Lab()))
	config += o.Config
	return server{
		host: h, name: name, program: "apache2", port: port, probe: "/healthz",
		files: map[string]string{"apache.conf": config},
		args: func(dir string) []string {
			return []string{"-d", dir, "-f", dir + "/apache.conf", "-DFOREGROUND"}
		},
	}.start()
}
