"""Names that people can say: two words for a person, two for a room, and the words of short codes.

The words are our own choice: short, friendly, plain ASCII, nothing that could hurt.
"""

from __future__ import annotations

import random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES = _words("""
    able agile airy alert amber ample apt awake balanced bold brave breezy bright brisk calm candid careful caring
    cheerful chipper civil clear clever coastal composed constant content cool copper cosy courteous crisp curious
    daring deft dreamy eager early earnest easy elegant even fair faithful fearless festive fine fleet fond frank
    fresh friendly gallant generous gentle glad gleaming golden graceful grand grateful happy hardy hearty helpful
    honest hopeful humble ideal jaunty jolly jovial joyful keen kind lasting learned light lively logical loyal
    lucid lucky lunar mellow merry mighty mild mindful modest musical neat nimble noble northern open orderly
    patient peaceful playful pleasant plucky poised polite prompt proud quick quiet radiant ready reliable rested
    robust rosy rural sage scenic serene sharp shining silent silver sincere sleek smart smiling smooth snug sober
    solar solid sound southern speedy spry stable starry steady sterling stout striking sturdy sunny sure swift
    tactful thankful thorough tidy timely tranquil trusty upbeat useful valiant vernal vivid warm watchful willing
    winged wise witty worthy youthful zesty
""")

ANIMALS = _words("""
    badger beaver bison bobcat buffalo camel caribou cheetah chipmunk condor cougar coyote crane cricket deer dingo
    dolphin donkey dove dragonfly duck eagle egret elk ermine falcon ferret finch firefly flamingo fox frog gazelle
    gecko gibbon giraffe goldfinch goose gopher grouse gull hamster hare hawk hedgehog heron hornbill horse ibex
    ibis iguana impala jackal jackdaw jaguar jay kestrel kingfisher kiwi koala ladybird lark lemming lemur leopard
    linnet lion lizard llama lobster lynx macaw magpie manatee mantis marmot marten meerkat mongoose moose moth
    mouse narwhal newt nightjar ocelot okapi opossum orca oriole osprey ostrich otter owl panda panther parrot
    partridge peacock pelican penguin petrel pheasant pigeon pika platypus plover pony porpoise puffin puma quail
    rabbit raccoon raven redwing reindeer robin salmon sandpiper seahorse seal skylark sparrow squirrel starling
    stork sturgeon swallow swan swift tapir tern thrush tiger toad tortoise toucan trout turtle wagtail wallaby
    walrus warbler weasel whale wolf wombat woodpecker wren yak zebra
""")

PLANTS = _words("""
    acacia alder almond aloe amaranth anemone apple apricot ash aspen aster azalea bamboo banyan baobab barley basil
    bay beech begonia bergamot birch bluebell borage bracken bramble briar broom buttercup camellia campion caraway
    cedar chamomile cherry chervil chestnut chicory clover columbine coriander cornflower cowslip crocus cypress
    daffodil dahlia daisy dandelion dill dogwood elder elm fennel fern fig fir foxglove freesia gardenia gentian
    geranium ginger ginkgo gorse hawthorn hazel heather hibiscus hickory holly hornbeam hyacinth iris ivy jasmine
    juniper larch laurel lavender lemon lichen lilac lily lime linden lotus lupin magnolia mallow mango maple
    marigold marjoram medlar mimosa mint moss mulberry myrtle nutmeg oak oleander olive orange orchid oregano palm
    pansy papaya peach pear pecan peony petunia pine plane plum pomelo poplar poppy primrose quince redwood reed
    rose rosemary rowan saffron sedge sequoia sorrel spruce sunflower sycamore tamarind tansy tarragon teak thistle
    thyme tulip vanilla verbena vetch violet walnut willow wisteria yarrow yew zinnia
""")

# For the secret half of a short code, which is read out over the phone: 256 words (8 bits each), no two with
# the same first three letters, any two at least three letters apart, none that sounds like another word.
CODE_WORDS = _words("""
    acorn admiral agent album almond alpine amber anchor angle apron aquarium arcade artist atlas attic autumn
    avenue badge baker ballad bamboo banjo barrel beacon bicycle biscuit blanket blossom bonfire border bottle
    branch brick bronze brush bubble bucket butter cabin cactus camera canoe caramel castle chapel chimney chorus
    cinema circle clover cobalt cocoa comet concert copper cosmos cotton cradle crystal cucumber cupboard cushion
    cyclone dancer daylight denim desert doctor dolphin domino drawer drummer dynamo easel echo eclipse elbow
    emerald engine envelope fabric factory falcon farmer feather festival fiddle filter flannel flute forest fossil
    fountain fridge galaxy garden ginger giraffe glacier glider goblet gondola granite guitar helmet hexagon hollow
    honey hurdle husky iceberg igloo indigo insect island ivory jackpot jasmine jewel jigsaw juggler kayak kimono
    kitchen koala ladder lagoon lantern lasso lava lemon library lizard lobby lotus lunch magnet marble meadow
    melody mermaid mirror mitten moped mosaic muffin museum napkin nectar needle nephew nickel nomad nugget nutmeg
    nylon oasis ocean octave olive onion opera orbit orchard oregano ostrich oxygen oyster palace pancake papaya
    pelican pencil piano picnic pilot pirate plasma plumber polka popcorn potato prairie pretzel prism pudding
    pumpkin puppet puzzle pyramid quartz quiver radar raft rainbow record rhino ribbon ripple rosette rowboat rubber
    saffron sandal sapphire saturn sausage school scooter shelter shovel signal siren snowman spiral sponge squash
    station stereo sugar summit sunset swallow syrup teapot temple tennis thimble thunder toffee topaz tornado
    tractor trumpet tulip tunnel tuxedo umbrella uniform urchin valley vanilla viking village violin volcano voyage
    vulture waffle walnut window woodland yodel zebra zenith zigzag
""")


def person_name(rng: random.Random) -> str:
    """A name for a person who gave none, such as “Quiet Heron”."""
    return f"{rng.choice(ADJECTIVES).title()} {rng.choice(ANIMALS).title()}"


def room_name(rng: random.Random) -> str:
    """A name for a room, such as “maple-otter”. It is announced and is no secret."""
    return f"{rng.choice(PLANTS)}-{rng.choice(ANIMALS)}"
