package peers

import (
	"baton/lab"
)

// ConfiguredOptions describe a server whose configuration is somebody else's. Paths in it that are relative are in the server's folder.
type ConfiguredOptions struct {
	Name   string // in logs and errors; default: the host's name
	Config string // the whole file
	Port   int    // where it listens; default: 80
	Probe  string // path that answers 200 when it is ready; default: /healthz

	Folders []string          // to make in its folder
	Files   map[string]string // more files in its folder: name → text
}

// ConfiguredNginx runs nginx with a whole configuration.
func ConfiguredNginx(h *lab.Host, o ConfiguredOptions) *Server {
	h.Lab().T().Helper()
	return o.server(h, "nginx", "nginx.conf", func(dir string) []string {
		return []string{"-p", dir, "-c", dir + "/nginx.conf", "-e", dir + "/error.log", "-g", "daemon off;"}
	}).start()
}

// ConfiguredApache runs Apache with a whole configuration.
func ConfiguredApache(h *lab.Host, o ConfiguredOptions) *Server {
	h.Lab().T().Helper()
	return o.server(h, "apache2", "apache.conf", func(dir string) []string {
		return []string{"-d", dir, "-f", dir + "/apache.conf", "-DFOREGROUND"}
	}).start()
}

func (o ConfiguredOptions) server(h *lab.Host, program, file string, args func(string) []string) server {
	files := map[string]string{file: o.Config}
	for name, text := range o.Files {
		files[name] = text
	}
	return server{
		host: h, name: orDefault(o.Name, h.Name()), program: program, port: orDefault(o.Port, 80), probe: orDefault(o.Probe, "/healthz"),
		files: files, folders: o.Folders, args: args,
	}
}
