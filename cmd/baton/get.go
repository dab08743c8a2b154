package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/resume"
	filepart "baton/resume/part"
	"baton/resume/state"
)

const getLong = `Download a file over HTTP, and resume after any break: when a connection is reset because the route to the server has moved, when a
server stalls or dies, when this machine does. The bytes are those of one version of the file, in order, or there is an error.

Several URLs are several files, one after the other; --mirror names other URLs of one file: where one fails, another continues, if it says that
it has the same file. Without -o or -O a file goes to standard output.

A download that breaks off is continued at once, from the byte that is missing, if the server names the file by a strong validator
(RFC 9110, section 8.8.1); otherwise it begins again, or, with --overlap, reads some bytes again and compares them. Where no
connection can be made the download ends, unless there is another mirror, or --retry-connrefused. While breaks are so frequent that
new connections cannot become fast, others run beside, each at another part of the file; there is a second one before any break where a
single one would cost more than half a percent of the time that is left (--connections 1: never).

While FILE is not complete its bytes are in FILE.part, and their state is in FILE.part.json; --continue resumes from them.
FILE appears when it is whole.

Flags of curl's have their meaning in curl, but for what is said here. --retry counts tries in a row that bring nothing: bytes refill it.
--retry-max-time counts from the last bytes. --speed-limit and --stall end a connection, not the download. Answers with an error
are never written to FILE (-f is always on).

Exit status (curl's, where curl has one; that of the first file that failed):
  0 complete                                   35 no TLS connection
  1 another failure                            47 too many redirects
  2 wrong usage                                56 the connection broke, too often
  6 the name has no address                    60 the server's certificate is wrong
  7 no connection                             101 the bytes are not those that were announced
 22 the server refuses (404, 416, 503, …)     102 this file is downloaded by another process
 23 the file cannot be written                130 interrupted
 28 out of time
 33 the file has changed, or cannot be continued`

const getExample = `  baton get -O https://cdn.example.net/image.iso
  baton get --continue -O https://cdn.example.net/image.iso               # after a crash, or an interrupt
  baton get -O https://cdn.example.net/a.iso https://cdn.example.net/b.iso   # two files
  baton get -o image.iso https://a.example.net/image.iso --mirror https://b.example.net/image.iso
  baton get https://cdn.example.net/backup.tar | tar x                    # in order, whatever breaks
  baton get -O --checksum sha256:9f86d0818…f00a08 https://cdn.example.net/image.iso
  baton get -o f --resolve cdn.example.net:80:192.0.2.7 --limit-rate 2M http://cdn.example.net/f
  baton get audit https://cdn.example.net/f https://mirror.example.org/f
  baton get proxy --upgrade deb.debian.org                                # then: http_proxy=http://127.0.0.1:8118/ apt-get update
  baton get --json -o f https://cdn.example.net/f | jq -c 'select(.event == "broke")'`

func getCommand(e cli.Env) *cobra.Command {
	var o getOptions
	c := &cobra.Command{
		Use:     "get URL...",
		Short:   "Download files, through any number of broken connections",
		Long:    getLong,
		Example: getExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			jobs, err := o.jobs(args)
			if err != nil {
				var exit cli.ExitError
				if errors.As(err, &exit) {
					return err
				}
				return cli.UsageError{Err: err}
			}
			// If the reader goes away, that is a write error like any other, and does not end the process.
			pipe := make(chan os.Signal, 1)
			signal.Notify(pipe, syscall.SIGPIPE)
			defer signal.Stop(pipe)
			var errs []error
			for _, job := range jobs {
				if len(errs) == 0 || cmd.Context().Err() == nil {
					errs = append(errs, getFile(cmd.Context(), e, &o, job))
				}
			}
			return errors.Join(errs...)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	o.downloadFlags(f)
	o.requestFlags(f)
	o.boundFlags(f)
	o.networkFlags(f)
	c.AddCommand(getAuditCommand(e), getProxyCommand(e))
	return c
}

// getFile downloads one file.
func getFile(ctx context.Context, e cli.Env, o *getOptions, job *getJob) (err error) {
	if o.maxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.maxTime))
		defer cancel()
	}
	report := newReport(e, o, job.file == "")
	job.options.Events = report.event
	var result resume.Result
	switch {
	case job.file == "":
		result, err = resume.NewClient(job.options).Download(ctx, job.request, e.Out, job.want, nil)
	case special(job.file):
		result, err = getToSpecial(ctx, job)
	default:
		result, err = getToFile(ctx, e, o, job)
	}
	report.close(result, err)
	return getFailure(err, o)
}

// special reports whether the name exists and is not a regular file: a device, a pipe. It is written to like standard output.
func special(name string) bool {
	st, err := os.Stat(name)
	return err == nil && !st.Mode().IsRegular() && !st.IsDir()
}

func getToSpecial(ctx context.Context, job *getJob) (resume.Result, error) {
	f, err := os.OpenFile(job.file, os.O_WRONLY, 0)
	if err != nil {
		return resume.Result{}, err
	}
	result, err := resume.NewClient(job.options).Download(ctx, job.request, f, job.want, nil)
	return result, errors.Join(err, f.Close())
}

func getToFile(ctx context.Context, e cli.Env, o *getOptions, job *getJob) (resume.Result, error) {
	f, err := state.Open(job.file, state.Options{Continue: job.resume, Offset: job.offset, Wanted: job.request.Have, URL: job.request.URLs[0]})
	if err != nil {
		return resume.Result{}, err
	}
	have, known, ignored := f.Begun()
	if ignored != nil && !o.silent {
		fmt.Fprintf(e.Err, "baton: begin again: %v\n", ignored)
	}
	if known && have.Offset > have.From {
		job.request.Have = have
		if !have.Validator.Strong() && job.options.Overlap == 0 {
			job.options.Overlap = defaultOverlap // for an unknown file, as with curl -C -
		}
		if job.request.Tail, err = f.Tail(job.options.Overlap); err != nil {
			return resume.Result{}, errors.Join(err, f.Close())
		}
	}
	result, err := resume.NewClient(job.options).Download(ctx, job.request, f, job.want, f.Kept())
	var fault *resume.Error
	switch {
	case err == nil:
		return result, f.Finish()
	case errors.As(err, &fault) && fault.Kind == resume.Digest:
		return result, errors.Join(err, f.Abandon())
	}
	return result, errors.Join(err, f.Close())
}

// getJob is a download, as set by the flags.
type getJob struct {
	request resume.Request
	options resume.Options
	dialer  resume.Dialer // of the options' Base
	file    string        // "": standard output
	resume  bool
	offset  int64 // of the existing file, -1: all of it
	want    filepart.Digests
}
