package mskiam

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
)

// Name of the mechanism.
const Name = "AWS_MSK_IAM"

const (
	// freshFor is how long credentials must hold at a login. A session ends with them.
	freshFor = 5 * time.Minute
	// lookupTimeout bounds a lookup of credentials: some endpoints take longer than a connect may.
	lookupTimeout = 30 * time.Second
	// keepFor is how long credentials are kept that do not expire, or not later than freshFor.
	keepFor = time.Minute
)

var errNoCredentials = fmt.Errorf("no credentials within %v", lookupTimeout)

// Options of a login.
type Options struct {
	// Region of the cluster.
	Region string
	// Load finds credentials. Defaults to the SDK's chain: environment, shared files, web identity
	// (IRSA), the endpoints of containers and of EC2.
	Load func(context.Context) (aws.Credentials, error)
}

// New returns a mechanism that is safe for concurrent use. A login looks credentials up again when
// temporary ones are no longer fresh, others after a minute. One lookup at a time serves all
// logins, for 30 s at most; it outlives them, so that a login finds what an earlier one did not
// wait for.
func New(o Options) sasl.Mechanism {
	if o.Load == nil {
		// The chain runs from its beginning, so that files are read again.
		o.Load = func(ctx context.Context) (aws.Credentials, error) {
			c, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region))
			if err != nil {
				return aws.Credentials{}, err
			}
			return c.Credentials.Retrieve(ctx)
		}
	}
	lookup := func(ctx context.Context) (aws.Credentials, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, errNoCredentials)
		defer cancel()
		found, err := o.Load(ctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("find AWS credentials: %w", err)
		}
		switch soon := time.Now().Add(keepFor); {
		case !found.CanExpire:
			found.CanExpire, found.Expires = true, soon
		case found.Expires.Add(-freshFor).After(soon):
			found.Expires = found.Expires.Add(-freshFor)
		case found.Expires.After(soon):
			found.Expires = soon
		}
		return found, nil
	}
	return &aws_msk_iam_v2.Mechanism{
		Signer: signer.NewSigner(), Credentials: aws.NewCredentialsCache(aws.CredentialsProviderFunc(lookup)), Region: o.Region,
	}
}
