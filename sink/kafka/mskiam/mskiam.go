package mskiam

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
	"golang.org/x/sync/singleflight"
)

// Name of the mechanism.
const Name = "AWS_MSK_IAM"

// freshFor is how long credentials must hold at a login. A session ends with them.
const freshFor = 5 * time.Minute

const (
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
	// Now defaults to time.Now.
	Now func() time.Time
}

// Mechanism is a sasl.Mechanism that is safe for concurrent use.
type Mechanism struct {
	options Options

	lookups singleflight.Group

	mu   sync.Mutex
	kept aws.Credentials
	// until is when kept is looked up again.
	until time.Time
}

var _ sasl.Mechanism = (*Mechanism)(nil)

// New returns a mechanism. It does not look for credentials yet.
func New(o Options) *Mechanism {
	if o.Load == nil {
		o.Load = fromChain(o.Region)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Mechanism{options: o}
}

// fromChain returns what runs through the SDK's chain from its beginning, so that files are read
// again.
func fromChain(region string) func(context.Context) (aws.Credentials, error) {
	return func(ctx context.Context) (aws.Credentials, error) {
		c, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
		if err != nil {
			return aws.Credentials{}, err
		}
		return c.Credentials.Retrieve(ctx)
	}
}

// Name implements sasl.Mechanism.
func (m *Mechanism) Name() string { return Name }

// Start implements sasl.Mechanism. It looks credentials up again when temporary ones are no longer
// fresh, others after a minute. One lookup at a time serves all logins, for 30 s at most.
func (m *Mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	credentials, err := m.credentials(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("find AWS credentials: %w", err)
	}
	signed := &aws_msk_iam_v2.Mechanism{
		Signer: signer.NewSigner(), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
		Region: m.options.Region, SignTime: m.options.Now(),
	}
	return signed.Start(ctx)
}

// credentials returns kept credentials, or joins a lookup. The lookup outlives ctx, so that a login
// finds what an earlier one did not wait for.
func (m *Mechanism) credentials(ctx context.Context) (aws.Credentials, error) {
	m.mu.Lock()
	kept, until := m.kept, m.until
	m.mu.Unlock()
	if m.options.Now().Before(until) {
		return kept, nil
	}
	select {
	case found := <-m.lookups.DoChan("", func() (any, error) { return m.lookup(context.WithoutCancel(ctx)) }):
		credentials, _ := found.Val.(aws.Credentials)
		return credentials, found.Err
	case <-ctx.Done():
		return aws.Credentials{}, context.Cause(ctx)
	}
}

// lookup loads credentials and keeps them.
func (m *Mechanism) lookup(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, errNoCredentials)
	defer cancel()
	found, err := m.options.Load(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return aws.Credentials{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.until = found, keepUntil(found, m.options.Now())
	return found, nil
}

// keepUntil returns when credentials that were found now are looked up again.
func keepUntil(c aws.Credentials, now time.Time) time.Time {
	soon := now.Add(keepFor)
	switch {
	case !c.CanExpire:
		return soon
	case c.Expires.Before(soon):
		return c.Expires
	case c.Expires.Add(-freshFor).Before(soon):
		return soon
	}
	return c.Expires.Add(-freshFor)
}
