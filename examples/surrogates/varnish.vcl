# Varnish in front of an origin, with downloads that can be resumed at another cache:
#
#   varnishd -F -n /run/varnish -a :80 -f /etc/baton/surrogates/varnish.vcl
#
# Its ETags are the origin's: all origins must send the same ones.
vcl 4.1;

backend default {
	.host = "127.0.0.1";
	.port = "8080";
}

sub vcl_recv {
	# One content coding for all clients: offsets count encoded bytes.
	unset req.http.Accept-Encoding;
}

sub vcl_backend_fetch {
	# Varnish fetches the whole file once and serves ranges itself.
	unset bereq.http.Range;
	unset bereq.http.If-Range;
}

sub vcl_backend_response {
	set beresp.do_gzip = false;
	set beresp.do_gunzip = false;
	# While a file is still being fetched, a range response would lack the total length.
	set beresp.do_stream = false;
	# Without a strong validator a download cannot be resumed: log it.
	if (beresp.status == 200 && (!beresp.http.ETag || beresp.http.ETag ~ "^W/")) {
		set beresp.http.X-Not-Resumable = "no strong ETag";
	}
}
