# Varnish in front of an origin, so that what it serves can be gone on with at another one:
#
#   varnishd -F -n /run/varnish -a :80 -f /etc/baton/surrogates/varnish.vcl
#
# Its ETags are the origin's: they have to be the same whichever origin a cache asks.
vcl 4.1;

backend default {
	.host = "127.0.0.1";
	.port = "8080";
}

sub vcl_recv {
	# One coding for all: offsets count coded bytes.
	unset req.http.Accept-Encoding;
}

sub vcl_backend_fetch {
	# The whole file is fetched once, and ranges of it are Varnish's own.
	unset bereq.http.Range;
	unset bereq.http.If-Range;
}

sub vcl_backend_response {
	set beresp.do_gzip = false;
	set beresp.do_gunzip = false;
	# A part of a file that is still being fetched would be given without its length.
	set beresp.do_stream = false;
	# What has no strong validator cannot be gone on with: let it be seen in the log.
	if (beresp.status == 200 && (!beresp.http.ETag || beresp.http.ETag ~ "^W/")) {
		set beresp.http.X-Not-Resumable = "no strong ETag";
	}
}
