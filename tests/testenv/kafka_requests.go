package testenv

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func createTopic(ctx context.Context, client *kgo.Client, name string, partitions int32, configs map[string]*string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	for key, value := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = key, value
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, topic)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		// Names are used once: the client has asked again for want of an answer.
		return nil
	}
	return err
}

func deleteTopic(ctx context.Context, client *kgo.Client, name string) error {
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames, req.Topics = 20_000, []string{name}, append(req.Topics, topic)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(res.Topics[0].ErrorCode)
}

func alterTopic(ctx context.Context, client *kgo.Client, name string, configs map[string]*string) error {
	topic := kmsg.NewIncrementalAlterConfigsRequestResource()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, name
	for key, value := range configs {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value, config.Op = key, value, kmsg.IncrementalAlterConfigOpSet
		if value == nil {
			config.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, topic)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(res.Resources[0].ErrorCode)
}

// topicShows returns nil when the broker shows the values of configs; for nil any but one that was
// set.
func topicShows(ctx context.Context, client *kgo.Client, name string, configs map[string]*string) error {
	topic := kmsg.NewDescribeConfigsRequestResource()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, topic)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.Resources[0].ErrorCode); err != nil {
		return err
	}
	for _, shown := range res.Resources[0].Configs {
		want, asked := configs[shown.Name]
		switch set := shown.Source == kmsg.ConfigSourceDynamicTopicConfig; {
		case !asked:
		case set != (want != nil), set && (shown.Value == nil || *shown.Value != *want):
			return fmt.Errorf("%s is not what it was set to yet", shown.Name)
		}
	}
	return nil
}

// hasLeaders returns nil when the topic has that many partitions and each of them has a leader.
func hasLeaders(ctx context.Context, client *kgo.Client, name string, partitions int32) error {
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); err != nil {
		return err
	}
	if n := len(res.Topics[0].Partitions); n != int(partitions) {
		return fmt.Errorf("%d of %d partitions are there", n, partitions)
	}
	for _, partition := range res.Topics[0].Partitions {
		if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}
